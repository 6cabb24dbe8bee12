// The first lines of an answer: status and header fields (RFC 9112, 4 and 5).
#ifndef SKERRY_HTTP_RESPONSE_HEAD_H_
#define SKERRY_HTTP_RESPONSE_HEAD_H_

#include <chrono>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/http/server.h"

namespace skerry {

// "Not Found"; empty for a status that isn't known.
std::string_view ReasonOf(int status);

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
std::string HttpDate(std::chrono::system_clock::time_point time);

// How the connection goes on, and how the body's end is found.
struct ResponseFraming {
  bool keep = true;      // false: "Connection: close"
  bool chunked = false;  // of a stream; without it a stream ends with the connection
};

// All up to and including the empty line. kInvalid where the status is none of 200-599, or where a header would break
// out of its line or say something about the framing.
Result<std::string> ResponseHead(const ServerResponse& response, ResponseFraming framing,
                                 std::chrono::system_clock::time_point time);

// Whether an answer of this status may have a body.
inline bool HasBody(int status) { return status >= 200 && status != 204 && status != 304; }

// An answer of the server itself: the status and one line that says why.
ServerResponse PlainAnswer(int status, std::string_view why);

// The same as the bytes to send.
std::string WholePlainAnswer(int status, std::string_view why, bool keep, bool head_only);

}  // namespace skerry

#endif  // SKERRY_HTTP_RESPONSE_HEAD_H_
