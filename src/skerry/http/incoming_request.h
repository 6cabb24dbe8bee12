// The bytes that a client sends, as requests (RFC 9112). No sockets here: what a client may send, however it is cut in
// pieces, is decided and bounded in this class alone. Boost.Beast's parser stays behind it.
#ifndef SKERRY_HTTP_INCOMING_REQUEST_H_
#define SKERRY_HTTP_INCOMING_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/http/server.h"

namespace skerry {

// Not thread-safe.
class IncomingRequest {
 public:
  // Bytes behind a request that may wait until it is answered, and the longest line or trailer of a chunked body.
  static constexpr size_t kMaxWaiting = 64 << 10;

  // Why a request is not accepted: what to answer before the connection is closed.
  struct Refusal {
    int status = 0;
    std::string why;
  };
  enum class Progress {
    kNeedsMore,
    kNeedsLeave,  // the client waits for "100 Continue" before it sends the body; go on with Parse()
    kComplete,    // Take() it
    kRefused,     // refusal() says why; nothing more is to be parsed
  };

  IncomingRequest(size_t max_header, uint64_t max_body);
  ~IncomingRequest();
  IncomingRequest(const IncomingRequest&) = delete;
  IncomingRequest& operator=(const IncomingRequest&) = delete;

  void Append(std::string_view bytes);
  // Parses what was appended, at most to the end of the request.
  Progress Parse();
  const Refusal& refusal() const { return refusal_; }

  // Of the request that comes in: a byte of it is there; its method, as far as the header was complete.
  bool begun() const { return begun_; }
  bool is_head() const { return request_.method == "HEAD"; }
  // HTTP/1.1 with no "Connection: close"; HTTP/1.1.
  bool keep() const { return keep_; }
  bool chunks() const { return chunks_; }

  // Enough waits behind the request.
  bool full() const { return waiting() >= kMaxWaiting; }

  // The complete request, without its peer. What follows it in the buffer is the next one.
  ServerRequest Take();

 private:
  class Parser;

  size_t waiting() const { return buffer_.size() - done_; }
  void Begin();
  void SkipEmptyLines();
  Progress Refuse(int status, std::string why);
  Progress ReadHeader();

  const size_t max_header_;
  const uint64_t max_body_;
  std::string buffer_;
  size_t done_ = 0;  // bytes of buffer_ that were parsed
  std::unique_ptr<Parser> parser_;

  bool begun_ = false, header_read_ = false, keep_ = false, chunks_ = false;
  size_t header_bytes_ = 0;
  ServerRequest request_;
  Refusal refusal_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_INCOMING_REQUEST_H_
