#include "skerry/http/bearer.h"

#include "skerry/base/file.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxTokenBytes = 4 << 10;

}  // namespace

std::optional<std::string> BearerTokenOf(const HttpHeaders& headers) {
  const std::string* found = nullptr;
  for (const HttpHeaders::Field& field : headers.fields()) {
    if (!SameHeaderName(field.name, "Authorization")) continue;
    if (found) return std::nullopt;
    found = &field.value;
  }
  if (!found) return std::nullopt;
  const std::string_view text = *found;
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || !SameHeaderName(text.substr(0, space), "Bearer")) return std::nullopt;
  const size_t begin = text.find_first_not_of(' ', space);
  if (begin == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(begin));
}

bool SameSecret(std::string_view given, std::string_view secret) {
  if (secret.empty()) return false;
  // Every byte that was given is looked at, and no branch depends on what is found. A volatile sum keeps the compiler
  // from leaving the loop early.
  volatile unsigned char different = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    different = static_cast<unsigned char>(
        different | (static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i % secret.size()])));
  }
  return different == 0;
}

Result<std::string> ReadTokenFile(const std::string& path) {
  auto bytes = ReadFile(path, kMaxTokenBytes);
  if (!bytes) return Annotate(std::move(bytes).error(), "token file");
  const std::string text = ToString(*bytes);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return Fail(Code::kInvalid, "token file {}: there is nothing in it", path);
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace skerry
