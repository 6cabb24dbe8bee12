// Where the members of a JSON object stand in its text (RFC 8259), so that one can be taken out or put in while all
// other bytes stay as they are. Finds places only: what is in nested values is not looked at, beyond matching brackets
// and strings.
#ifndef SKERRY_PROXY_JSON_MEMBERS_H_
#define SKERRY_PROXY_JSON_MEMBERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skerry {

struct JsonMember {
  std::string name;        // with escapes decoded
  std::string_view value;  // its text, without white space around it; a part of the object's text
  size_t begin = 0;        // of the name's quote, in the object's text
  size_t end = 0;          // behind the value
};

// The top-level members in their order, repeated names included. nullopt where the text is no single object, as far as
// one can tell without looking into nested values. Linear; strings are passed over at memchr's speed.
std::optional<std::vector<JsonMember>> FindMembers(std::string_view object);

// The object's text without the members of that name, with one comma less for each; everything else byte for byte.
std::string WithoutMembers(std::string_view object, const std::vector<JsonMember>& members, std::string_view name);

// The object's text with `member` ("\"a\":1") put before its last '}'.
std::string WithMember(std::string_view object, bool is_empty, std::string_view member);

}  // namespace skerry

#endif  // SKERRY_PROXY_JSON_MEMBERS_H_
