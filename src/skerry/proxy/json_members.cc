#include "skerry/proxy/json_members.h"

#include <charconv>

#include "skerry/proxy/json_scan.h"

namespace skerry {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// A code point as UTF-8. A surrogate without its other half is written like any other: no name that is looked for has
// one.
void AppendUtf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

// The four digits behind "\u".
std::optional<uint32_t> Hex4(std::string_view text) {
  uint32_t code = 0;
  const std::string_view digits = text.substr(0, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4) return std::nullopt;
  return code;
}

std::optional<char> SimpleEscape(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/': return c;
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return std::nullopt;
  }
}

// `rest` stands behind a backslash; what belongs to the escape is taken from it.
bool DecodeEscape(std::string_view& rest, std::string& out) {
  if (rest.empty()) return false;
  const char kind = rest.front();
  rest.remove_prefix(1);
  if (kind != 'u') {
    const auto c = SimpleEscape(kind);
    if (c) out += *c;
    return c.has_value();
  }
  auto code = Hex4(rest);
  if (!code) return false;
  rest.remove_prefix(4);
  if (*code >= 0xD800 && *code < 0xDC00 && rest.starts_with("\\u")) {
    const auto low = Hex4(rest.substr(2));
    if (low && *low >= 0xDC00 && *low < 0xE000) {
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
      rest.remove_prefix(6);
    }
  }
  AppendUtf8(*code, out);
  return true;
}

// What a string's text, quotes included, stands for.
std::optional<std::string> Decode(std::string_view string) {
  std::string_view rest = string.substr(1, string.size() - 2);
  std::string decoded;
  while (true) {
    const size_t backslash = rest.find('\\');
    decoded += rest.substr(0, backslash);
    if (backslash == std::string_view::npos) return decoded;
    rest.remove_prefix(backslash + 1);
    if (!DecodeEscape(rest, decoded)) return std::nullopt;
  }
}

std::optional<JsonMember> NextMember(JsonScan& scan) {
  JsonMember member;
  scan.SkipSpace();
  member.begin = scan.at();
  const auto quoted = scan.String();
  if (!quoted) return std::nullopt;
  auto name = Decode(*quoted);
  scan.SkipSpace();
  if (!name || !scan.Take(':')) return std::nullopt;
  scan.SkipSpace();
  const auto value = scan.Value();
  if (!value) return std::nullopt;
  member.name = *std::move(name);
  member.value = *value;
  member.end = scan.at();
  return member;
}

}  // namespace

std::optional<std::vector<JsonMember>> FindMembers(std::string_view object) {
  JsonScan scan(object);
  // Python's decoder and ours take a text that begins with one.
  if (object.starts_with(kByteOrderMark)) {
    for (const char c : kByteOrderMark) scan.Take(c);
  }
  scan.SkipSpace();
  if (!scan.Take('{')) return std::nullopt;
  std::vector<JsonMember> members;
  scan.SkipSpace();
  if (!scan.Take('}')) {
    do {
      auto member = NextMember(scan);
      if (!member) return std::nullopt;
      members.push_back(*std::move(member));
      scan.SkipSpace();
    } while (scan.Take(','));
    if (!scan.Take('}')) return std::nullopt;
  }
  scan.SkipSpace();
  if (!scan.AtEnd()) return std::nullopt;
  return members;
}

std::string WithoutMembers(std::string_view object, const std::vector<JsonMember>& members, std::string_view name) {
  std::string out;
  out.reserve(object.size());
  bool any_kept = false;
  size_t at = 0;
  for (const JsonMember& member : members) {
    const bool kept = member.name != name;
    // White space, and the comma behind the member before. It stays where it still stands between two members.
    for (const char c : object.substr(at, member.begin - at)) {
      if (c != ',' || (kept && any_kept)) out += c;
    }
    if (kept) out += object.substr(member.begin, member.end - member.begin);
    any_kept = any_kept || kept;
    at = member.end;
  }
  out += object.substr(at);
  return out;
}

std::string WithMember(std::string_view object, bool is_empty, std::string_view member) {
  const size_t brace = object.rfind('}');
  if (brace == std::string_view::npos) return std::string(object);
  std::string out;
  out.reserve(object.size() + member.size() + 1);
  out += object.substr(0, brace);
  if (!is_empty) out += ',';
  out += member;
  out += object.substr(brace);
  return out;
}

}  // namespace skerry
