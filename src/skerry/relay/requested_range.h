// What a GET asks for of an object that has a size and an entity tag (RFC 9110, 13 and 14).
#ifndef SKERRY_RELAY_REQUESTED_RANGE_H_
#define SKERRY_RELAY_REQUESTED_RANGE_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "skerry/http/headers.h"

namespace skerry {

struct RequestedRange {
  int status = 200;  // 200, 206, 304, 412 or 416
  uint64_t begin = 0, end = 0;
  bool operator==(const RequestedRange&) const = default;
};

// `has_tag`: whether a tag, with its quotes, is the object's. One range; several, other units and malformed ones are
// answered with the whole object. If-Range with a date is never met.
RequestedRange RangeAskedFor(const HttpHeaders& headers, uint64_t size,
                             const std::function<bool(std::string_view)>& has_tag);

// Whether a list of tags ("*", "\"a\", W/\"b\"") has one of the object's. `weak`: W/ before a tag is passed over; else
// such a tag is none of the object's.
bool ListHasTag(std::string_view list, bool weak, const std::function<bool(std::string_view)>& has_tag);

}  // namespace skerry

#endif  // SKERRY_RELAY_REQUESTED_RANGE_H_
