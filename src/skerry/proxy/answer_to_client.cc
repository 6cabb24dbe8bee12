#include "skerry/proxy/answer_to_client.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "skerry/proxy/passed_headers.h"
#include "skerry/proxy/spans.h"
#include "skerry/proxy/stamped_run.h"

namespace skerry {
namespace {

// For what is done with each event: fmt reads its format each time.
void AppendNumber(uint64_t number, std::string& out, int base = 10) {
  std::array<char, 24> digits;
  out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), number, base).ptr);
}

// "application/json; charset=utf-8" is of type "application/json".
bool IsOfType(const HttpHeaders& headers, std::string_view type) {
  const std::string* value = headers.FindValue("Content-Type");
  if (value == nullptr) return false;
  std::string_view given = std::string_view(*value).substr(0, value->find(';'));
  while (!given.empty() && given.back() == ' ') given.remove_suffix(1);
  return SameHeaderName(given, type);
}

}  // namespace

AnswerToClient::AnswerToClient(AnswerHead head, const RequestFraming& client, VersionLabel start, bool stamped)
    : head_(std::move(head)), client_(client), start_(std::move(start)) {
  const bool is_plain = !stamped || !head_.has_body || head_.status < 200 || head_.status > 299 || !start_.version ||
                        head_.headers.FindValue("Content-Encoding") != nullptr;
  if (is_plain) return;
  if (IsOfType(head_.headers, "application/json")) mode_ = Mode::kWholeJson;
  if (IsOfType(head_.headers, "text/event-stream")) {
    mode_ = Mode::kEvents;
    events_.emplace(start_.run, *start_.version);
  }
}

void AnswerToClient::WriteHead(std::optional<uint64_t> length, std::string_view more, std::string& out) {
  begun_ = true;
  if (!head_.has_body) {
    framing_ = Framing::kNone;
  } else if (length) {
    framing_ = Framing::kLength;
  } else {
    framing_ = client_.chunks ? Framing::kChunked : Framing::kUntilClose;
  }
  out += "HTTP/1.1 ";
  AppendNumber(static_cast<uint64_t>(head_.status), out);
  out += ' ';
  out += head_.reason;
  out += "\r\n";
  AppendPassedHeaders(head_.headers, out);
  if (length && head_.status != 204) {
    out += "Content-Length: ";
    AppendNumber(*length, out);
    out += "\r\n";
  }
  if (framing_ == Framing::kChunked) out += "Transfer-Encoding: chunked\r\n";
  if (framing_ == Framing::kUntilClose || !client_.keep) out += "Connection: close\r\n";
  out += "Skerry-Run: ";
  out += StampedRun(start_.run);
  if (start_.version) {
    out += "\r\nSkerry-Version-Start: ";
    AppendNumber(start_.version->number(), out);
  }
  out += "\r\n";
  out += more;
  out += "\r\n";
}

void AnswerToClient::WritePiece(std::string_view piece, std::string& out) const {
  if (piece.empty()) return;
  if (framing_ == Framing::kChunked) {
    AppendNumber(piece.size(), out, 16);
    out += "\r\n";
  }
  out += piece;
  if (framing_ == Framing::kChunked) out += "\r\n";
}

void AnswerToClient::Begin(std::string& out) {
  if (mode_ == Mode::kWholeJson && head_.length.value_or(0) <= kWhole) return;  // when it is complete
  if (mode_ == Mode::kWholeJson) mode_ = Mode::kJson;
  WriteHead(mode_ == Mode::kPlain ? head_.length : std::nullopt, "", out);
}

void AnswerToClient::Pass(std::string_view piece, std::optional<Version> version, std::string& out) {
  if (mode_ == Mode::kPlain) return WritePiece(piece, out);
  if (mode_ == Mode::kWholeJson) {
    body_ += piece;
    if (body_.size() <= kWhole) return;
    mode_ = Mode::kJson;
    WriteHead(std::nullopt, "", out);
    const std::string so_far = std::exchange(body_, "");
    return Pass(so_far, version, out);
  }
  stamped_.clear();
  if (mode_ == Mode::kJson) {
    json_.Pass(piece, stamped_);
  } else {
    events_->Pass(piece, version, stamped_);
  }
  WritePiece(stamped_, out);
}

void AnswerToClient::Finish(std::optional<Version> end, std::string& out) {
  stamped_.clear();
  if (mode_ == Mode::kWholeJson) {
    std::string more;
    if (end) more = fmt::format("Skerry-Version-End: {}\r\n", end->number());
    if (const auto spans = SpansOf(body_, start_.run)) more += fmt::format("Skerry-Spans: {}\r\n", *spans);
    stamped_ = StampedAnswer(body_, *start_.version, end);
    WriteHead(stamped_.size(), more, out);
  } else if (mode_ == Mode::kJson) {
    json_.Finish(*start_.version, end, stamped_);
  } else if (mode_ == Mode::kEvents) {
    events_->Finish(end, stamped_);
  }
  WritePiece(stamped_, out);
  if (framing_ == Framing::kChunked) out += "0\r\n\r\n";
}

}  // namespace skerry
