#include "skerry/board/names.h"

#include <array>
#include <charconv>
#include <ostream>
#include <random>

#include "skerry/base/hash.h"

namespace skerry {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

Result<Version> Version::Parse(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number > kMax) {
    return Fail(Code::kInvalid, "'{}' is not a version: a whole number between 0 and {}", text.substr(0, 32), kMax);
  }
  return Version(number);
}

Result<RunId> RunId::Parse(std::string_view text) {
  bool good = !text.empty() && text.size() <= kMaxSize && text[0] != '.';
  for (const char c : text) good = good && IsNameCharacter(c);
  if (!good) {
    return Fail(Code::kInvalid,
                "'{}' is not a run's name: 1-{} characters of A-Z a-z 0-9 . _ -, not beginning with '.'",
                text.substr(0, kMaxSize), kMaxSize);
  }
  return RunId(text);
}

std::ostream& operator<<(std::ostream& out, Version version) { return out << version.number(); }
std::ostream& operator<<(std::ostream& out, const RunId& run) { return out << run.str(); }

std::string RandomToken() {
  std::random_device device;
  std::array<uint32_t, 4> words;
  for (uint32_t& word : words) word = device();
  return ToHex(std::as_bytes(std::span(words)));
}

}  // namespace skerry
