// The JSON bodies of requests: in an object that a decoder takes, the same members are found where they stand, and are
// taken out, put in and salted without another change.
#include <algorithm>

#include "check.h"
#include "skerry/proxy/cache_salt.h"
#include "skerry/proxy/json_members_testing.h"
#include "skerry/proxy/spans.h"
#include "skerry/proxy/version_constraint.h"

namespace skerry {
namespace {

constexpr std::string_view kLabel = "run:7";

void CheckSalted(nlohmann::json before, const nlohmann::json& after) {
  if (before.is_array()) {
    FUZZ_CHECK(after.is_array() && after.size() == before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      if (!before[i].is_array()) CheckSalted(before[i], after[i]);
    }
  } else if (before.is_null() || before == "") {
    FUZZ_CHECK(after == kLabel);
  } else if (!before.is_string()) {
    FUZZ_CHECK(after == before);
  } else {
    const std::string own = before.get<std::string>();
    const std::string salt = after.get<std::string>();
    FUZZ_CHECK(salt.starts_with(kLabel));
    if (own.size() <= kLongestCacheSalt - kLabel.size() - 1) FUZZ_CHECK(salt == std::string(kLabel) + ":" + own);
  }
}

void CheckObject(std::string_view object) {
  FUZZ_CHECK(MembersAgree(object));
  const auto members = FindMembers(object).value();
  const auto values = MembersByDecoder(object).value();

  const std::string name = members.empty() ? "a" : members[members.size() / 2].name;
  const std::string left = WithoutMembers(object, members, name);
  auto kept = values;
  std::erase_if(kept, [&](const auto& member) { return member.first == name; });
  FUZZ_CHECK(MembersAgree(left) && MembersByDecoder(left) == kept);

  const std::string with = WithMember(object, members.empty(), "\"\\u0000new\":[]");
  FUZZ_CHECK(FindMembers(with) && FindMembers(with)->size() == members.size() + 1);
  if (members.empty() || members.back().name != std::string_view("\0new", 4)) {
    const auto again = FindMembers(with).value();
    FUZZ_CHECK(again.back().name == std::string_view("\0new", 4));
  }

  const auto salted = MembersByDecoder(WithCacheSalt(object, SaltMember::kCacheSalt, kLabel));
  const auto is_salt = [](const auto& member) { return member.first == "cache_salt"; };
  const bool has_one = std::any_of(values.begin(), values.end(), is_salt);
  FUZZ_CHECK(salted && salted->size() == values.size() + (has_one ? 0 : 1));
  for (size_t i = 0; i < values.size(); ++i) {
    FUZZ_CHECK((*salted)[i].first == values[i].first);
    if (is_salt(values[i])) {
      CheckSalted(values[i].second, (*salted)[i].second);
    } else {
      FUZZ_CHECK((*salted)[i].second == values[i].second);
    }
  }
  if (!has_one) FUZZ_CHECK(salted->back().second == kLabel);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The decoder's own comparisons recurse.
  const auto open = std::count_if(text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; });
  if (open <= 500 && MembersByDecoder(text)) CheckObject(text);
  if (const auto members = FindMembers(text)) {
    for (const JsonMember& member : *members)
      FUZZ_CHECK(WithoutMembers(text, *members, member.name).size() < text.size());
  }
  (void)WithCacheSalt(text, SaltMember::kExtraKey, kLabel);
  (void)SpansOf(text, "run");
  (void)ParseVersionConstraint({}, text);
  return 0;
}
