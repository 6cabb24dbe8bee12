#include "skerry/proxy/answer_stamps.h"

#include "skerry/proxy/json_scan.h"

namespace skerry {
namespace {

constexpr size_t kMostSpaceHeld = 4096;

// How many bytes of `text` stand in front of the white space at its end.
size_t SizeWithoutSpace(std::string_view text) {
  size_t size = text.size();
  while (size > 0 && IsJsonSpace(text[size - 1])) --size;
  return size;
}

}  // namespace

std::string AnswerStamp(Version start, std::optional<Version> end, bool with_comma) {
  return fmt::format("{}\"weight_version_start\":{},\"weight_version_end\":{}", with_comma ? "," : "", start,
                     end ? end->ToString() : "null");
}

void AnswerStamper::Pass(std::string_view piece, std::string& out) {
  if (!begun_) {
    size_t first = 0;
    while (first < piece.size() && IsJsonSpace(piece[first])) ++first;
    begun_ = first < piece.size();
    is_object_ = begun_ && piece[first] == '{';
    const size_t passed = is_object_ ? first + 1 : first;
    out += piece.substr(0, passed);
    piece.remove_prefix(passed);
  }
  if (!is_object_) {
    out += piece;
    return;
  }
  const size_t size = SizeWithoutSpace(piece);
  if (size > 0) {
    // Whatever was held is not the end.
    const size_t passed = piece[size - 1] == '}' ? size - 1 : size;
    has_members_ = has_members_ || !held_.empty() || SizeWithoutSpace(piece.substr(0, passed)) > 0;
    out += held_;
    held_.clear();
    out += piece.substr(0, passed);
    piece.remove_prefix(passed);
  }
  const bool holds = size > 0 ? piece.starts_with('}') : !held_.empty();
  if (!holds) {
    out += piece;
    return;
  }
  held_ += piece;
  if (held_.size() > 1 + kMostSpaceHeld) {
    has_members_ = true;
    out += held_;
    held_.clear();
  }
}

void AnswerStamper::Finish(Version start, std::optional<Version> end, std::string& out) {
  if (!held_.empty()) out += AnswerStamp(start, end, has_members_);
  out += held_;
  held_.clear();
}

std::string StampedAnswer(std::string_view body, Version start, std::optional<Version> end) {
  AnswerStamper stamper;
  std::string out;
  out.reserve(body.size() + 80);
  stamper.Pass(body, out);
  stamper.Finish(start, end, out);
  return out;
}

}  // namespace skerry
