// Answers to requests for keys of a board, without a thread each: while the bytes come, or until a head moves.
//
// All on the loop.
#ifndef SKERRY_RELAY_ANSWERS_H_
#define SKERRY_RELAY_ANSWERS_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/http/exchange.h"
#include "skerry/http/server.h"
#include "skerry/relay/heads.h"
#include "skerry/relay/library.h"
#include "skerry/relay/requested_range.h"

namespace skerry {

// What all answers share; outlives them.
struct RelayParts {
  EventLoop& loop;
  Library& library;
  Heads& heads;
  RelayMetrics& metrics;
  bool stopping = false;  // on the loop
};

// The common part: one request of a client, and how it ends.
class KeyAnswer : public Exchange, public std::enable_shared_from_this<KeyAnswer> {
 public:
  KeyAnswer(RelayParts& parts, ServerRequest request, const RequestFraming& framing, ClientPort& port)
      : parts_(parts), request_(std::move(request)), framing_(framing), port_(&port) {}

  // Begins, or answers at once.
  virtual void Start() = 0;

  void OnBody(std::string_view) override {}
  void OnBodyEnd() override {}
  void OnBodyRefused(int status, std::string_view why) override { Refuse(status, why); }
  void OnDrained() override {}
  void OnGone() override;

  // An answer of the relay's own: {"error": {"type", "message"}}.
  void Refuse(int status, std::string_view why);
  void RefuseFor(const Error& error);

 protected:
  bool gone() const { return port_ == nullptr; }
  bool is_head() const { return request_.method == "HEAD"; }
  // Status line and headers of an answer of `length` bytes (nullopt: it has no body).
  void WriteHead(int status, std::string_view type, std::optional<uint64_t> length, const HttpHeaders& headers);
  void Finish(RelayedEnd end);
  void Abort();

  RelayParts& parts_;
  const ServerRequest request_;
  const RequestFraming framing_;
  ClientPort* port_;   // nullptr once the request has ended
  uint64_t sent_ = 0;  // bytes of an object
};

// An object, or a range of it, as far as it has come.
class ObjectAnswer : public KeyAnswer, public Body::Reader {
 public:
  ObjectAnswer(RelayParts& parts, ServerRequest request, const RequestFraming& framing, ClientPort& port,
               std::string key, BoardObject object)
      : KeyAnswer(parts, std::move(request), framing, port), key_(std::move(key)), object_(std::move(object)) {}

  void Start() override;
  void OnDrained() override { Pump(); }
  void OnMore() override { Pump(); }

 private:
  // Of an object whose bytes were wrong, before any was passed on.
  static constexpr int kMostAttempts = 4;
  static constexpr size_t kPiece = 128 << 10;
  static constexpr size_t kMostUnsent = 256 << 10;
  static constexpr size_t kTurn = 1 << 20;  // after which others get theirs

  void Find();
  void OnFound(Result<FoundObject> found);
  void Begin();
  void Pump();

  const std::string key_;
  const BoardObject object_;
  std::shared_ptr<Body> body_;
  uint64_t size_ = 0;
  RequestedRange range_;
  uint64_t at_ = 0;
  bool begun_ = false;
  int attempts_ = 0;
};

// A head, at once or when it has moved.
class HeadAnswer : public KeyAnswer {
 public:
  // The longest time that a request may wait.
  static constexpr std::chrono::seconds kLongestWait{60};

  HeadAnswer(RelayParts& parts, ServerRequest request, const RequestFraming& framing, ClientPort& port, RunId run)
      : KeyAnswer(parts, std::move(request), framing, port), run_(std::move(run)) {}

  void Start() override;
  void OnGone() override;
  // Nobody waits at the other end of a connection that was closed: who has closed one direction only is answered now.
  void OnClientEnd() override;

 private:
  void OnHead(Result<SharedHead> head, bool may_wait);
  void Answer(const RelayedHead& head);

  const RunId run_;
  std::optional<std::chrono::seconds> wait_;  // as the client asked for, bounded
  SharedHead held_;                           // that is waited to be another one
  std::shared_ptr<void> waiting_, timer_;
};

}  // namespace skerry

#endif  // SKERRY_RELAY_ANSWERS_H_
