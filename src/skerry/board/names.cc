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

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= RunId::kMaxPartSize && text[0] != '.' &&
         std::all_of(text.begin(), text.end(), IsNameCharacter);
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
  const size_t slash = text.find('/');
  const bool has_view = slash != std::string_view::npos;
  if (!IsName(text.substr(0, slash)) || (has_view && !IsName(text.substr(slash + 1)))) {
    return Fail(
        Code::kInvalid,
        "'{}' is not a run's name: 1-{} characters of A-Z a-z 0-9 . _ -, not beginning with '.', and for a view "
        "of it a '/' and the view's name, which is of the same kind",
        text.substr(0, kMaxSize), kMaxPartSize);
  }
  return RunId(text);
}

Result<RunId> RunId::View(std::string_view view) const {
  if (view.empty()) return Whole();
  if (!IsName(view)) {
    return Fail(Code::kInvalid,
                "'{}' is not a view's name: 1-{} characters of A-Z a-z 0-9 . _ -, not beginning with '.'",
                view.substr(0, kMaxPartSize), kMaxPartSize);
  }
  return RunId(fmt::format("{}/{}", whole_name(), view));
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
