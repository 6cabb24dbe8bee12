// Which header fields pass from one side to the other (RFC 9110, 7.6.1).
#ifndef SKERRY_PROXY_PASSED_HEADERS_H_
#define SKERRY_PROXY_PASSED_HEADERS_H_

#include <string>

#include "skerry/http/headers.h"

namespace skerry {

// Appends the end-to-end fields as lines, in their order: without those of the connection and of the framing, without
// what `Connection` names, and `Expect`. `ours`: with `Skerry-…`, which an engine and its callers don't get to say.
void AppendPassedHeaders(const HttpHeaders& headers, bool ours, std::string& out);

}  // namespace skerry

#endif  // SKERRY_PROXY_PASSED_HEADERS_H_
