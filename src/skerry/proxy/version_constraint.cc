#include "skerry/proxy/version_constraint.h"

#include <charconv>
#include <cmath>
#include <string>

#include "skerry/base/text.h"
#include "skerry/proxy/json_members.h"

namespace skerry {
namespace {

constexpr size_t kMostShown = 40;

std::string Shown(std::string_view value) {
  return value.size() <= kMostShown ? Printable(value) : Printable(value.substr(0, kMostShown)) + "…";
}

// A wish, and where it stands: "Skerry-Min-Version", "weight_version.min_version".
template <typename T>
struct Wish {
  std::string source;
  std::optional<T> value;
};

Result<Version> ParseWish(std::string_view source, std::string_view text, Version) {
  const auto version = Version::Parse(text);
  if (version && (text.size() == 1 || text.front() != '0')) return *version;
  return Fail(Code::kInvalid, "{}: \"{}\" is no whole number from 0 to {}", source, Shown(text), Version::kMax);
}

Result<std::chrono::milliseconds> ParseWish(std::string_view source, std::string_view text, std::chrono::milliseconds) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number =
      error == std::errc() && end == text.data() + text.size() && text.front() >= '0' && text.front() <= '9';
  if (!is_number || !(seconds <= static_cast<double>(kLongestWait.count()))) {
    return Fail(Code::kInvalid, "{}: \"{}\" is no number of seconds from 0 to {}", source, Shown(text),
                kLongestWait.count());
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

// Takes `text` for the wish, which must not be said twice in the same place and must not differ from what another says.
template <typename T>
Status Add(std::string_view source, std::string_view text, Wish<T>& wish) {
  SKERRY_ASSIGN(const T value, ParseWish(source, text, T{}));
  if (wish.source == source)
    return Fail(Code::kInvalid, "{}: given twice, the second time as \"{}\"", source, Shown(text));
  if (wish.value && *wish.value != value) {
    return Fail(Code::kInvalid, "{}: \"{}\" differs from {}", source, Shown(text), wish.source);
  }
  wish = {std::string(source), value};
  return {};
}

struct Wishes {
  Wish<Version> min, exact;
  Wish<std::chrono::milliseconds> wait;
};

Status AddHeaders(const HttpHeaders& headers, Wishes& wishes) {
  for (const HttpHeaders::Field& field : headers.fields()) {
    if (SameHeaderName(field.name, "Skerry-Min-Version")) {
      SKERRY_TRY(Add("Skerry-Min-Version", field.value, wishes.min));
    } else if (SameHeaderName(field.name, "Skerry-Exact-Version")) {
      SKERRY_TRY(Add("Skerry-Exact-Version", field.value, wishes.exact));
    } else if (SameHeaderName(field.name, "Skerry-Wait")) {
      SKERRY_TRY(Add("Skerry-Wait", field.value, wishes.wait));
    }
  }
  return {};
}

Status AddBodyMember(std::string_view body_member, Wishes& wishes) {
  const auto members = FindMembers(body_member);
  if (!members) return Fail(Code::kInvalid, "weight_version: \"{}\" is no object", Shown(body_member));
  for (const JsonMember& member : *members) {
    const std::string source = "weight_version." + Shown(member.name);
    if (member.name == "min_version") {
      SKERRY_TRY(Add(source, member.value, wishes.min));
    } else if (member.name == "exact_version") {
      SKERRY_TRY(Add(source, member.value, wishes.exact));
    } else if (member.name == "wait") {
      SKERRY_TRY(Add(source, member.value, wishes.wait));
    } else {
      return Fail(Code::kInvalid, "{}: there is no such member (\"{}\")", source, Shown(member.value));
    }
  }
  return {};
}

}  // namespace

Result<VersionConstraint> ParseVersionConstraint(const HttpHeaders& headers, std::string_view body_member) {
  Wishes wishes;
  SKERRY_TRY(AddHeaders(headers, wishes));
  if (!body_member.empty()) SKERRY_TRY(AddBodyMember(body_member, wishes));
  if (wishes.min.value && wishes.exact.value) {
    return Fail(Code::kInvalid, "{} is {} and {} is {}: only one of them may be given", wishes.min.source,
                *wishes.min.value, wishes.exact.source, *wishes.exact.value);
  }
  return VersionConstraint{.min = wishes.min.value, .exact = wishes.exact.value, .wait = wishes.wait.value};
}

}  // namespace skerry
