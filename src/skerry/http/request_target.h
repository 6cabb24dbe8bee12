// What a request asks for: the path and the query of its request line (RFC 9112, 3.2; RFC 3986, 3.3 and 3.4).
#ifndef SKERRY_HTTP_REQUEST_TARGET_H_
#define SKERRY_HTTP_REQUEST_TARGET_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skerry/base/result.h"

namespace skerry {

struct RequestTarget {
  std::string raw;   // as it came: "/v1/a%20b?x=1"
  std::string path;  // percent-decoded: "/v1/a b"; "*" of OPTIONS
  // Names and values, decoded, with '+' as a space; "a" and "a=" both have the value "".
  std::vector<std::pair<std::string, std::string>> query;

  // The first value of that name.
  std::optional<std::string> Query(std::string_view name) const;
};

// kInvalid for a target that is no path, "http://host/path" or "*", for a '#' in it, and for a '%' that is not followed
// by two hexadecimal digits or stands for the byte 0.
Result<RequestTarget> ParseRequestTarget(std::string_view raw);

}  // namespace skerry

#endif  // SKERRY_HTTP_REQUEST_TARGET_H_
