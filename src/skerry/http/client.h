// An HTTP/1.1 client for objects: connections are reused, bodies stream, a transfer that stalls ends, however long a
// good one lasts. The only header through which Skerry speaks HTTP as a client; libcurl stays behind it.
#ifndef SKERRY_HTTP_CLIENT_H_
#define SKERRY_HTTP_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/http/headers.h"

namespace skerry {

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;
  Bytes body;  // empty where the request's `receive` took it

  bool ok() const { return status >= 200 && status < 300; }
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://, percent-encoded; sent as it is
  HttpHeaders headers;

  // The body: a span that must outlive the call, or `body_size` bytes that `read_body` fills in from any offset (it may
  // be asked again from 0 when a kept connection turns out to be dead).
  ByteSpan body;
  std::function<Status(uint64_t offset, MutableByteSpan out)> read_body;
  uint64_t body_size = 0;

  // Where the body of a 2xx answer goes instead of HttpResponse::body: called for each piece, with the status and
  // headers in `head`. False ends the transfer, as a success; an error ends it and is what Send returns.
  std::function<Result<bool>(const HttpResponse& head, ByteSpan piece)> receive;
  // Of HttpResponse::body; a longer one is kCorrupt.
  uint64_t body_limit = 1 << 20;

  std::chrono::milliseconds connect_timeout{10'000};
  // A transfer (or the wait for an answer) that moves less than kStallBytes a second for this long has failed.
  std::chrono::seconds stall_timeout{30};
  // 0: none.
  std::chrono::milliseconds total_timeout{0};
  // A connection of its own. A kept connection that dies makes the client send a request a second time: not for a
  // request whose second arrival means something else.
  bool fresh_connection = false;
  // Never through a proxy that the environment names (metadata services of the host).
  bool no_proxy = false;
};

struct HttpClientOptions {
  // PEM file with the authorities to trust instead of the system's; empty: the system's.
  std::string ca_file;
};

// Thread-safe; requests of several threads run in parallel on connections of their own. Follows no redirects, raises no
// signals, asks for no compression. Nothing is logged.
class HttpClient {
 public:
  static constexpr long kStallBytes = 512;

  explicit HttpClient(HttpClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Any complete answer is a success here, whatever its status. A transfer that failed or ended early is kUnavailable
  // and names the URL without its query; a certificate that is not trusted or a malformed URL is kInvalid. An
  // interruption point, for as long as it lasts.
  Result<HttpResponse> Send(const HttpRequest& request);

 private:
  class Pool;
  class Transfer;
  const HttpClientOptions options_;
  std::unique_ptr<Pool> pool_;
};

// The URL without its query and without anything that hides in it, for messages.
std::string UrlForMessages(std::string_view url);

}  // namespace skerry

#endif  // SKERRY_HTTP_CLIENT_H_
