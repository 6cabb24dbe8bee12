#include "skerry/relay/requested_range.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace skerry {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes=5-9", "bytes=5-", "bytes=-5"; nullopt for what is to be ignored.
std::optional<RequestedRange> Parse(std::string_view text, uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit) || text.find(',') != std::string_view::npos) return std::nullopt;
  text = Trimmed(text.substr(kUnit.size()));
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view first_text = text.substr(0, dash), last_text = text.substr(dash + 1);
  const auto first = Number(first_text), last = Number(last_text);
  const RequestedRange none{.status = 416};
  if (first_text.empty()) {
    if (!last) return std::nullopt;
    if (*last == 0 || size == 0) return none;
    return RequestedRange{206, size - std::min(*last, size), size};
  }
  if (!first || (!last && !last_text.empty()) || (last && *last < *first)) return std::nullopt;
  if (*first >= size) return none;
  return RequestedRange{206, *first, last ? std::min(*last, size - 1) + 1 : size};
}

}  // namespace

bool ListHasTag(std::string_view list, bool weak, const std::function<bool(std::string_view)>& has_tag) {
  list = Trimmed(list);
  if (list == "*") return true;
  while (!list.empty()) {
    const bool is_weak = list.starts_with("W/");
    if (is_weak) list.remove_prefix(2);
    if (!list.starts_with('"')) return false;
    const size_t end = list.find('"', 1);
    if (end == std::string_view::npos) return false;
    if ((!is_weak || weak) && has_tag(list.substr(0, end + 1))) return true;
    list = Trimmed(list.substr(end + 1));
    if (list.starts_with(',')) list = Trimmed(list.substr(1));
  }
  return false;
}

RequestedRange RangeAskedFor(const HttpHeaders& headers, uint64_t size,
                             const std::function<bool(std::string_view)>& has_tag) {
  const std::string* match = headers.FindValue("If-Match");
  if (match != nullptr && !ListHasTag(*match, /*weak=*/false, has_tag)) return {.status = 412};
  const std::string* none_match = headers.FindValue("If-None-Match");
  if (none_match != nullptr && ListHasTag(*none_match, /*weak=*/true, has_tag)) return {.status = 304};
  const RequestedRange whole{200, 0, size};
  const std::string* range = headers.FindValue("Range");
  if (range == nullptr) return whole;
  const std::string* if_range = headers.FindValue("If-Range");
  if (if_range != nullptr && !has_tag(Trimmed(*if_range))) return whole;
  return Parse(*range, size).value_or(whole);
}

}  // namespace skerry
