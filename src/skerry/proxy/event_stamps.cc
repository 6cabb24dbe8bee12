#include "skerry/proxy/event_stamps.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "skerry/proxy/json_scan.h"
#include "skerry/proxy/stamped_run.h"

namespace skerry {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Where lines end: the LF or CR at or behind a place. Each byte is looked at once for each of the two.
class LineEnds {
 public:
  explicit LineEnds(std::string_view text) : text_(text) {}

  size_t Next(size_t at) { return std::min(Next(at, '\n', lf_), Next(at, '\r', cr_)); }

 private:
  size_t Next(size_t at, char c, size_t& known) {
    if (known == kUnknown || known < at) known = text_.find(c, at);
    return known;
  }

  static constexpr size_t kUnknown = std::string_view::npos - 1;
  const std::string_view text_;
  size_t lf_ = kUnknown, cr_ = kUnknown;
};

// The data of a line, without the space behind the colon; nullopt for lines of other fields and comments.
std::optional<std::string_view> DataOf(std::string_view line) {
  constexpr std::string_view kName = "data";
  if (!line.starts_with(kName)) return std::nullopt;
  line.remove_prefix(kName.size());
  if (line.empty()) return line;
  if (line.front() != ':') return std::nullopt;
  line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

void AppendEventStamp(bool with_comma, std::optional<Version> version, std::string& out) {
  out += with_comma ? std::string_view(",\"weight_version\":") : std::string_view("\"weight_version\":");
  if (!version) {
    out += "null";
    return;
  }
  char digits[20];
  const char* const end = std::to_chars(digits, digits + sizeof(digits), version->number()).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

}  // namespace

void EventStamper::Pass(std::string_view piece, std::optional<Version> version, std::string& out) {
  size_t sent;
  if (held_.empty()) {
    sent = Work(piece, version, out);
    held_ = piece.substr(sent);
  } else {
    held_ += piece;
    sent = Work(held_, version, out);
    held_.erase(0, sent);
  }
  line_ -= sent;
  scanned_ -= sent;
  if (event_.brace == kNone) return;
  event_.begin -= sent;
  event_.brace -= sent;
}

size_t EventStamper::Work(std::string_view window, std::optional<Version> version, std::string& out) {
  size_t sent = 0;
  LineEnds ends(window);
  while (scanned_ < window.size()) {
    if (after_cr_ && window[scanned_] == '\n') line_ = ++scanned_;
    after_cr_ = false;
    const size_t end = ends.Next(scanned_);
    scanned_ = std::min(end, window.size());
    if (end >= window.size()) break;
    EndLine(window, end, version, sent, out);
    after_cr_ = window[end] == '\r';
    line_ = scanned_ = end + 1;
  }
  if (event_.brace != kNone && window.size() - event_.begin > kLongestLine) event_.brace = kNone;
  if (!long_line_ && window.size() - line_ > kLongestLine) {
    long_line_ = true;
    long_data_ = DataOf(Line(window, window.size())).has_value();
    if (long_data_) AddData(window, {});
  }
  if (long_line_) line_ = window.size();
  const size_t hold = event_.brace != kNone ? event_.begin : line_;
  out += window.substr(sent, hold - sent);
  return hold;
}

std::string_view EventStamper::Line(std::string_view window, size_t end) const {
  std::string_view line = window.substr(line_, end - line_);
  if (first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return line;
}

void EventStamper::EndLine(std::string_view window, size_t end, std::optional<Version> version, size_t& sent,
                           std::string& out) {
  const std::string_view line = Line(window, end);
  first_line_ = false;
  in_event_ = long_line_ || !line.empty();
  if (std::exchange(long_line_, false)) {
    if (long_data_) event_.version = version;
  } else if (line.empty()) {
    EndEvent(window, sent, out);
  } else if (const auto data = DataOf(line)) {
    AddData(window, *data);
    event_.version = version;
  }
}

void EventStamper::AddData(std::string_view window, std::string_view data) {
  data = TrimJsonSpace(data);
  event_.brace = kNone;
  event_.is_done = ++event_.data_lines == 1 && data == "[DONE]";
  if (event_.data_lines > 1 || data.size() < 2 || data.front() != '{' || data.back() != '}') return;
  event_.begin = line_;
  event_.brace = static_cast<size_t>(&data.back() - window.data());
  event_.with_comma = !TrimJsonSpace(data.substr(1, data.size() - 2)).empty();
}

void EventStamper::EndEvent(std::string_view window, size_t& sent, std::string& out) {
  if (event_.brace != kNone && line_ - event_.begin <= kLongestLine) {
    out += window.substr(sent, event_.brace - sent);
    AppendEventStamp(event_.with_comma, event_.version, out);
    sent = event_.brace;
  }
  if (event_.data_lines > 0 && !event_.is_done) {
    ++events_;
    ++counts_[event_.version];
  }
  event_ = Event{};
}

void EventStamper::Finish(std::optional<Version> end, std::string& out) {
  if (long_line_ || line_ < held_.size()) Pass("\n", end, out);
  // Behind a CR the first LF would end no line of its own.
  if (in_event_) Pass(after_cr_ ? "\n\n" : "\n", end, out);
  out += Summary(end);
}

std::string EventStamper::Summary(std::optional<Version> end) const {
  nlohmann::ordered_json summary = {{"run", StampedRun(run_)}, {"weight_version_start", start_.number()}};
  summary["weight_version_end"] = end ? nlohmann::ordered_json(end->number()) : nlohmann::ordered_json();
  nlohmann::ordered_json& events = summary["events"] = nlohmann::ordered_json::object();
  for (const auto& [version, count] : counts_) events[version ? version->ToString() : "null"] = count;
  return fmt::format("event: skerry.summary\ndata: {}\n\n", summary.dump());
}

}  // namespace skerry
