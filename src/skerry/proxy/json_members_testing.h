// What tests and fuzzers compare FindMembers with: a decoder that reads everything.
#ifndef SKERRY_PROXY_JSON_MEMBERS_TESTING_H_
#define SKERRY_PROXY_JSON_MEMBERS_TESTING_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/proxy/json_members.h"

namespace skerry {

// Names and values in order, repeated ones included; nullopt where the text is no valid object.
inline std::optional<std::vector<std::pair<std::string, nlohmann::json>>> MembersByDecoder(std::string_view text) {
  // The decoder takes a byte 0 for the end of the text.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  std::vector<std::pair<std::string, nlohmann::json>> members;
  using Event = nlohmann::json::parse_event_t;
  const auto parsed = nlohmann::json::parse(
      text,
      [&](int depth, Event event, nlohmann::json& value) {
        if (depth != 1) return true;
        if (event == Event::key) {
          members.emplace_back(value.get<std::string>(), nullptr);
        } else if (event != Event::object_start && event != Event::array_start && !members.empty()) {
          members.back().second = value;
        }
        return true;
      },
      false);
  if (!parsed.is_object()) return std::nullopt;
  return members;
}

// Whether FindMembers finds in a valid object what the decoder does, at places that hold it.
inline bool MembersAgree(std::string_view object) {
  const auto expected = MembersByDecoder(object);
  const auto found = FindMembers(object);
  if (!expected || !found || expected->size() != found->size()) return false;
  size_t before = 0;
  for (size_t i = 0; i < found->size(); ++i) {
    const JsonMember& member = (*found)[i];
    const auto value = nlohmann::json::parse(member.value, nullptr, false);
    // dump() tells -0.0 from 0.0 and integers from fractions.
    if (member.name != (*expected)[i].first || value.dump() != (*expected)[i].second.dump()) return false;
    if (member.begin < before || member.end > object.size() || object[member.begin] != '"') return false;
    if (member.value.data() + member.value.size() != object.data() + member.end) return false;
    before = member.end;
  }
  return true;
}

}  // namespace skerry

#endif  // SKERRY_PROXY_JSON_MEMBERS_TESTING_H_
