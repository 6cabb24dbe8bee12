#include "skerry/http/request_target.h"

#include <algorithm>
#include <charconv>

namespace skerry {

namespace {

// kInvalid where an escape is broken. In a query a '+' is a space.
Result<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      uint8_t byte = 0;
      const std::string_view digits = text.substr(i + 1, 2);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2 || byte == 0) {
        return Fail(Code::kInvalid, "\"{}\" at byte {} of the request's target is no escape", text.substr(i, 3), i);
      }
      decoded += static_cast<char>(byte);
      i += 2;
    }
  }
  return decoded;
}

// "http://host/path" is what a client sends to a proxy; a server takes it as "/path".
std::string_view WithoutOrigin(std::string_view raw) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!raw.starts_with(scheme)) continue;
    const size_t path = raw.find_first_of("/?", scheme.size());
    return path == std::string_view::npos ? "/" : raw.substr(path);
  }
  return raw;
}

}  // namespace

std::optional<std::string> RequestTarget::Query(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

Result<RequestTarget> ParseRequestTarget(std::string_view raw) {
  RequestTarget target{.raw = std::string(raw), .path = {}, .query = {}};
  if (raw == "*") {
    target.path = "*";
    return target;
  }
  // A fragment is none of a server's business, and some cut it off.
  if (raw.find('#') != std::string_view::npos) return Fail(Code::kInvalid, "the request's target has a '#'");
  const std::string_view local = WithoutOrigin(raw);
  const size_t question = local.find('?');
  const std::string_view path = local.substr(0, question);
  if (!path.starts_with('/') && !(path.empty() && local.size() != raw.size())) {
    return Fail(Code::kInvalid, "the request's target is neither a path nor a URL");
  }
  SKERRY_ASSIGN(target.path, Decode(path.empty() ? "/" : path, false));
  if (question == std::string_view::npos) return target;
  std::string_view rest = local.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    SKERRY_ASSIGN(std::string name, Decode(pair.substr(0, equals), true));
    std::string value;
    if (equals != std::string_view::npos) {
      SKERRY_ASSIGN(value, Decode(pair.substr(equals + 1), true));
    }
    target.query.emplace_back(std::move(name), std::move(value));
  }
  return target;
}

}  // namespace skerry
