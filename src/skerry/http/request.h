// A request as a server gets it.
#ifndef SKERRY_HTTP_REQUEST_H_
#define SKERRY_HTTP_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/http/headers.h"
#include "skerry/http/request_target.h"

namespace skerry {

struct ServerRequest {
  std::string method;  // "GET", as it came
  RequestTarget target;
  HttpHeaders headers;
  std::string body;  // empty where it is taken piece by piece (exchange.h)
  std::string peer;  // "127.0.0.1:41234"

  const std::string& path() const { return target.path; }
  std::optional<std::string> Query(std::string_view name) const { return target.Query(name); }
  std::optional<std::string> Header(std::string_view name) const { return headers.Find(name); }

  // The client has closed its side or was cut off: whatever takes long may be given up. An answer is still tried.
  bool ClientGone() const { return gone && *gone; }
  std::shared_ptr<const std::atomic<bool>> gone;  // nullptr in requests that no server made
};

// How the request's body comes, and what the client understands.
struct RequestFraming {
  bool keep = false;    // HTTP/1.1 with no "Connection: close"
  bool chunks = false;  // HTTP/1.1: the answer may be chunked
  bool chunked_body = false;
  std::optional<uint64_t> length;  // of the body, where the client said it

  bool has_body() const { return chunked_body || length.value_or(0) > 0; }
};

}  // namespace skerry

#endif  // SKERRY_HTTP_REQUEST_H_
