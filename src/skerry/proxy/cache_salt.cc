#include "skerry/proxy/cache_salt.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "skerry/base/hash.h"
#include "skerry/proxy/json_members.h"
#include "skerry/proxy/json_scan.h"
#include "skerry/proxy/stamped_run.h"

namespace skerry {
namespace {

std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

size_t Characters(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The text of the caller's string, without its quotes, as it stands behind the label.
std::string CallersPart(std::string_view string, size_t most) {
  const std::string_view inner = string.substr(1, string.size() - 2);
  if (inner.size() <= most) return std::string(inner);
  const auto decoded = nlohmann::json::parse(string, nullptr, false);
  if (!decoded.is_string()) return std::string(inner);
  const std::string& own = decoded.get_ref<const std::string&>();
  return Characters(own) <= most ? std::string(inner) : Sha256::Of(own).Hex().substr(0, 32);
}

// A string's or null's text with the label in it; any other value's as it is.
std::string SaltedScalar(std::string_view value, std::string_view label) {
  if (value == "null" || value == "\"\"") return Quoted(label);
  if (!value.starts_with('"')) return std::string(value);
  std::string salted = Quoted(fmt::format("{}:", label));
  const size_t taken = label.size() + 1;
  salted.insert(salted.size() - 1, CallersPart(value, kLongestCacheSalt - std::min(taken, kLongestCacheSalt)));
  return salted;
}

std::string Salted(std::string_view value, std::string_view label) {
  const auto elements = value.starts_with('[') ? FindElements(value, kMostCacheSalts) : std::nullopt;
  if (!elements) return SaltedScalar(value, label);
  std::string salted;
  const char* at = value.data();
  for (const std::string_view element : *elements) {
    salted.append(at, element.data());
    salted += SaltedScalar(element, label);
    at = element.data() + element.size();
  }
  salted.append(at, value.data() + value.size());
  return salted;
}

}  // namespace

std::string CacheLabel(std::string_view run, Version version, std::string_view stay) {
  return fmt::format("{}:{}:{}", StampedRun(run), version, stay);
}

std::string WithCacheSalt(std::string_view body, SaltMember member, std::string_view label) {
  const std::string_view name = member == SaltMember::kExtraKey ? "extra_key" : "cache_salt";
  const auto members = member == SaltMember::kNone ? std::nullopt : FindMembers(body);
  if (!members) return std::string(body);
  std::string out;
  size_t at = 0;
  bool has_one = false;
  for (const JsonMember& found : *members) {
    if (found.name != name) continue;
    has_one = true;
    const size_t value = found.end - found.value.size();
    out += body.substr(at, value - at);
    out += Salted(found.value, label);
    at = found.end;
  }
  if (!has_one) return WithMember(body, members->empty(), fmt::format("\"{}\":{}", name, Quoted(label)));
  return out += body.substr(at);
}

}  // namespace skerry
