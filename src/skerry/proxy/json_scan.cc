#include "skerry/proxy/json_scan.h"

#include <array>
#include <cstring>

namespace skerry {
namespace {

constexpr bool IsLetterOrDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
// What numbers, true, false and null are made of, and Python's NaN and Infinity.
constexpr bool IsScalar(char c) { return IsLetterOrDigit(c) || c == '-' || c == '+' || c == '.'; }

// What a walk over nested values has to stop at.
constexpr std::array<bool, 256> kStops = [] {
  std::array<bool, 256> stops{};
  for (const char c : {'"', '{', '}', '[', ']'}) stops[static_cast<unsigned char>(c)] = true;
  return stops;
}();

}  // namespace

std::string_view TrimJsonSpace(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

void JsonScan::SkipSpace() {
  while (at_ < text_.size() && IsJsonSpace(text_[at_])) ++at_;
}

bool JsonScan::Take(char c) {
  if (AtEnd() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::optional<std::string_view> JsonScan::String() {
  const size_t begin = at_;
  if (!SkipString()) return std::nullopt;
  return text_.substr(begin, at_ - begin);
}

std::optional<std::string_view> JsonScan::Value() {
  const size_t begin = at_;
  if (AtEnd()) return std::nullopt;
  const char first = text_[at_];
  if (first == '"') {
    if (!SkipString()) return std::nullopt;
  } else if (first == '{' || first == '[') {
    if (!SkipNested()) return std::nullopt;
  } else {
    while (at_ < text_.size() && IsScalar(text_[at_])) ++at_;
    if (at_ == begin) return std::nullopt;
  }
  return text_.substr(begin, at_ - begin);
}

bool JsonScan::SkipString() {
  if (!Take('"')) return false;
  size_t begin = at_;
  while (begin < text_.size()) {
    const void* found = std::memchr(text_.data() + begin, '"', text_.size() - begin);
    if (!found) return false;
    const size_t quote = static_cast<size_t>(static_cast<const char*>(found) - text_.data());
    // An odd number of backslashes escapes the quote. None is counted twice: they stand behind the quote before.
    size_t first = quote;
    while (first > begin && text_[first - 1] == '\\') --first;
    begin = quote + 1;
    if ((quote - first) % 2 == 0) {
      at_ = begin;
      return true;
    }
  }
  return false;
}

bool JsonScan::SkipNested() {
  size_t depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (!kStops[static_cast<unsigned char>(c)]) {
      ++at_;
    } else if (c == '"') {
      if (!SkipString()) return false;
    } else {
      ++at_;
      depth = c == '{' || c == '[' ? depth + 1 : depth - 1;
      if (depth == 0) return true;
    }
  }
  return false;
}

std::optional<std::vector<std::string_view>> FindElements(std::string_view array, size_t most) {
  JsonScan scan(array);
  std::vector<std::string_view> elements;
  scan.SkipSpace();
  if (!scan.Take('[')) return std::nullopt;
  scan.SkipSpace();
  if (!scan.Take(']')) {
    do {
      scan.SkipSpace();
      const auto value = scan.Value();
      if (!value || elements.size() == most) return std::nullopt;
      elements.push_back(*value);
      scan.SkipSpace();
    } while (scan.Take(','));
    if (!scan.Take(']')) return std::nullopt;
  }
  scan.SkipSpace();
  if (!scan.AtEnd()) return std::nullopt;
  return elements;
}

}  // namespace skerry
