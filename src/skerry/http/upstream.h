// Requests to one HTTP server whose answers are passed on as they come, over connections that are kept. The counterpart
// of exchange.h, on the same event loop.
#ifndef SKERRY_HTTP_UPSTREAM_H_
#define SKERRY_HTTP_UPSTREAM_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/http/event_loop.h"
#include "skerry/http/incoming_answer.h"

namespace skerry {

enum class UpstreamFailure {
  kUnreachable,  // no connection
  kBrokeOff,     // it ended before the answer did
  kSilent,       // nothing came for too long
  kNoAnswer,     // what came is none that can be relied on
};

// One request. All on the loop's thread.
class UpstreamCall {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnAnswerHead(AnswerHead head) = 0;
    virtual void OnAnswerBody(std::string_view piece) = 0;
    // All that has come so far has been told: time to send on what was gathered of it.
    virtual void OnAnswerPause() = 0;
    // The answer is complete, and the call is over.
    virtual void OnAnswerEnd() = 0;
    // No (further) answer will come, and the call is over.
    virtual void OnCallFailed(UpstreamFailure kind, const std::string& why) = 0;
    // All that was sent has left.
    virtual void OnCallDrained() = 0;
  };

  virtual ~UpstreamCall() = default;
  // Bytes of the request, from its request line on. They wait while the connection is being made.
  virtual void Send(std::string_view bytes) = 0;
  virtual size_t unsent() const = 0;
  // Whether the answer's bytes are wanted now; they are from the beginning.
  virtual void WantAnswer(bool want) = 0;
  // Bytes of the answer that are here and were not told to the listener, since they are not wanted or not read yet.
  virtual size_t Untold() = 0;
  // The connection had served an earlier call, and no byte of an answer to this one has come: the server may have
  // closed it before it saw the request.
  virtual bool MayNotHaveArrived() const = 0;
  // The listener is not called any more; the server sees that nobody waits.
  virtual void Cancel() = 0;
};

struct UpstreamOptions {
  std::string host;  // a name or an IP address
  uint16_t port = 80;
  std::chrono::milliseconds connect_timeout{5'000};
  // While the request waits to be sent or its answer to come.
  std::chrono::milliseconds silence_timeout{3'600'000};
  // How long a connection is kept for the next call. Below the 5 s of uvicorn, so that it is seldom the server that
  // ends it.
  std::chrono::milliseconds idle_timeout{4'000};
  size_t max_idle = 512;
  size_t max_header = 64 << 10;
};

// "http://127.0.0.1:8000" as host and port; kInvalid for anything that has more to it, and for https. A user and
// password in it are passed over.
Result<UpstreamOptions> ParseUpstreamUrl(const std::string& url);

// The connections to one server. All on the loop's thread, but the constructor and destructor, which may
// be called from any.
class Upstream {
 public:
  Upstream(EventLoop& loop, UpstreamOptions options);
  // No call is under way.
  ~Upstream();
  const UpstreamOptions& options() const;

  // Begins a call; nothing is told to the listener before this has returned. `to_head`: the request's method is HEAD.
  // `fresh`: over a new connection.
  std::shared_ptr<UpstreamCall> Call(UpstreamCall::Listener& listener, bool to_head, bool fresh);

  size_t idle() const;

  class Pool;

 private:
  EventLoop& loop_;
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<void> look_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_UPSTREAM_H_
