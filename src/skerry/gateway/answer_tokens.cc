#include "skerry/gateway/answer_tokens.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace skerry {
namespace {

constexpr uint64_t kMostTokens = 1 << 24;  // of one answer; more is not believed

}  // namespace

AnswerTokens::AnswerTokens(const HttpHeaders& headers) {
  const std::string* type = headers.FindValue("Content-Type");
  if (type == nullptr || headers.FindValue("Content-Encoding") != nullptr) return;
  if (type->starts_with("application/json")) kind_ = Kind::kJson;
  if (type->starts_with("text/event-stream")) kind_ = Kind::kEvents;
}

void AnswerTokens::Pass(std::string_view piece) {
  if (kind_ == Kind::kJson) {
    if (piece.size() >= kTail) {
      tail_ = piece.substr(piece.size() - kTail);
      return;
    }
    tail_ += piece;
    if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);
  }
  if (kind_ != Kind::kEvents) return;
  while (!piece.empty()) {
    const size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    if (line_.size() < kLineStart) line_ += part.substr(0, kLineStart - line_.size());
    if (end == std::string_view::npos) return;
    TakeLine();
    piece.remove_prefix(end + 1);
  }
}

void AnswerTokens::TakeLine() {
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    if (std::exchange(has_data_, false) && !is_named_) ++events_;
    is_named_ = false;
  } else if (line.starts_with("data:")) {
    has_data_ = has_data_ || !line.substr(5).ends_with("[DONE]");
  } else if (line.starts_with("event:")) {
    is_named_ = true;
  }
  line_.clear();
}

uint64_t AnswerTokens::Finish() {
  if (kind_ != Kind::kJson) return events_;
  for (const std::string_view name : {"\"completion_tokens\":", "\"output_tokens\":"}) {
    const size_t at = tail_.rfind(name);
    if (at == std::string::npos) continue;
    const size_t digits = std::min(tail_.find_first_not_of(" \t\r\n", at + name.size()), tail_.size());
    uint64_t count = 0;
    std::from_chars(tail_.data() + digits, tail_.data() + tail_.size(), count);
    return count <= kMostTokens ? count : 0;
  }
  return 0;
}

}  // namespace skerry
