#include "skerry/s3/uri.h"

#include <algorithm>

#include "skerry/base/hash.h"
#include "skerry/base/text.h"

namespace skerry {
namespace {

bool IsUnreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

std::string UriEncode(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    if (IsUnreserved(c) || (c == '/' && keep_slashes)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

Result<std::string> UriDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const Result<Bytes> byte = i + 2 < text.size() ? FromHex(text.substr(i + 1, 2)) : Result<Bytes>(Bytes());
    if (!byte || byte->size() != 1) {
      return Fail(Code::kInvalid, "\"{}\": a % must be followed by two hexadecimal digits (a % itself is %25)",
                  Printable(text));
    }
    out += static_cast<char>((*byte)[0]);
    i += 2;
  }
  return out;
}

std::string CanonicalQuery(const QueryParameters& parameters) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : parameters) encoded.emplace_back(UriEncode(name), UriEncode(value));
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded) out += (out.empty() ? "" : "&") + name + "=" + value;
  return out;
}

}  // namespace skerry
