// The bytes that a client sends, as requests (RFC 9112). No sockets here: what a client may send, however it is cut in
// pieces, is decided and bounded in this class alone. Boost.Beast's parser stays behind it.
#ifndef SKERRY_HTTP_INCOMING_REQUEST_H_
#define SKERRY_HTTP_INCOMING_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/http/request.h"

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
    kHead,        // TakeHead(), LimitBody(), go on
    kNeedsLeave,  // the client waits for "100 Continue" before it sends the body; go on
    kBody,        // piece() is the next part of the body; go on
    kComplete,    // the request has ended; go on after Next()
    kRefused,     // refusal() says why; nothing more is to be parsed
  };

  explicit IncomingRequest(size_t max_header);
  ~IncomingRequest();
  IncomingRequest(const IncomingRequest&) = delete;
  IncomingRequest& operator=(const IncomingRequest&) = delete;

  void Append(std::string_view bytes);
  // Parses what was appended, up to the next thing to be told.
  Progress Parse();
  const Refusal& refusal() const { return refusal_; }

  // Of the request that comes in: a byte of it is there; its method, as far as the header was complete.
  bool begun() const { return begun_; }
  bool is_head() const { return is_head_; }
  bool complete() const { return complete_; }
  const RequestFraming& framing() const { return framing_; }

  // Enough waits behind the request, or of a body that nobody takes.
  bool full() const { return waiting() >= kMaxWaiting; }

  // The request without its body and peer, once.
  ServerRequest TakeHead();
  // A longer body is refused with 413, at once where its length is known. Before the body is parsed; else there is
  // none.
  void LimitBody(uint64_t bytes) { max_body_ = bytes; }
  // Until the next Append or Parse.
  std::string_view piece() const;

  // What follows in the buffer is the next request.
  void Next();

 private:
  class Parser;

  size_t waiting() const { return buffer_.size() - done_; }
  void SkipEmptyLines();
  Progress Refuse(int status, std::string why);
  Progress ParseHeader();
  Progress AcceptHeader();
  Progress ParseBody();

  const size_t max_header_;
  std::string buffer_;
  size_t done_ = 0;  // bytes of buffer_ that were parsed
  std::unique_ptr<Parser> parser_;

  bool begun_ = false, header_read_ = false, body_begun_ = false, complete_ = false, is_head_ = false;
  bool asks_leave_ = false;
  uint64_t max_body_ = UINT64_MAX;
  RequestFraming framing_;
  ServerRequest head_;
  Refusal refusal_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_INCOMING_REQUEST_H_
