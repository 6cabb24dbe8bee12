#include "skerry/proxy/answer_to_client.h"

#include <fmt/format.h>

#include <utility>

#include "skerry/proxy/spans.h"
#include "skerry/proxy/stamped_run.h"

namespace skerry {
namespace {

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
  std::string stamps = "Skerry-Run: ";
  stamps += StampedRun(start_.run);
  if (start_.version) {
    stamps += "\r\nSkerry-Version-Start: ";
    AppendNumber(start_.version->number(), stamps);
  }
  stamps += "\r\n";
  stamps += more;
  framed_.Begin(head_, client_, length, /*ours=*/false, stamps, out);
}

void AnswerToClient::Begin(std::string& out) {
  if (mode_ == Mode::kWholeJson && head_.length.value_or(0) <= kWhole) return;  // when it is complete
  if (mode_ == Mode::kWholeJson) mode_ = Mode::kJson;
  WriteHead(mode_ == Mode::kPlain ? head_.length : std::nullopt, "", out);
}

void AnswerToClient::Pass(std::string_view piece, std::optional<Version> version, std::string& out) {
  if (mode_ == Mode::kPlain) return framed_.Piece(piece, out);
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
  framed_.Piece(stamped_, out);
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
  framed_.Piece(stamped_, out);
  framed_.End(out);
}

}  // namespace skerry
