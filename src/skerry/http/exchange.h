// One request and its answer, event by event, for what must not hold a thread while it lasts: what a server calls and
// what it offers.
//
// Everything here happens on the server's event loop.
#ifndef SKERRY_HTTP_EXCHANGE_H_
#define SKERRY_HTTP_EXCHANGE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "skerry/http/request.h"

namespace skerry {

// The client's side of an exchange. Valid until Finish or Abort was called or OnGone was.
class ClientPort {
 public:
  virtual ~ClientPort() = default;
  // Bytes of the answer, its status line and headers included (response_head.h). What the client does not take at once
  // is kept.
  virtual void Write(std::string_view bytes) = 0;
  // Of those, what has not left.
  virtual size_t unsent() const = 0;
  // Whether the body is wanted now; it is from the beginning.
  virtual void WantBody(bool want) = 0;
  // The answer is complete. `keep`: its end can be told without closing the connection. The rest of a body that has not
  // been read yet is read and dropped, if it is short, else the connection is closed.
  virtual void Finish(bool keep) = 0;
  // The answer stays incomplete, and the client sees it.
  virtual void Abort() = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void OnBody(std::string_view piece) = 0;
  virtual void OnBodyEnd() = 0;
  // The body is malformed or too long, and nothing of it comes any more: answer with this status, and close. Where
  // the answer had begun, the exchange ends with OnGone instead.
  virtual void OnBodyRefused(int status, std::string_view why) = 0;
  // All that was written has left.
  virtual void OnDrained() = 0;
  // The client is gone, or the server cuts it off: what was written goes nowhere.
  virtual void OnGone() = 0;
  // The client has ended its sending, which most do only when they go; an answer can still be written.
  virtual void OnClientEnd() {}
};

// Makes the exchange for a request whose head has come, and takes that; nullptr: it is one for the server's handler,
// and the head stays as it is. `max_body` may be lowered. The exchange may write and finish before this returns.
using BeginExchange = std::function<std::shared_ptr<Exchange>(ServerRequest& head, const RequestFraming& framing,
                                                              ClientPort& port, uint64_t& max_body)>;

}  // namespace skerry

#endif  // SKERRY_HTTP_EXCHANGE_H_
