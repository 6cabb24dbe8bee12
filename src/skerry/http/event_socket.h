// Inside http: one connection of an event loop. Bytes are handed on as they come and sent as they are given, without a
// thread, a timer or a large buffer of its own, so that many thousands may be open.
//
// All on the loop's thread.
#ifndef SKERRY_HTTP_EVENT_SOCKET_H_
#define SKERRY_HTTP_EVENT_SOCKET_H_

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/http/event_loop_core.h"

namespace skerry {

class EventSocket : public std::enable_shared_from_this<EventSocket> {
 public:
  // steady_clock to within some milliseconds, which is enough for time limits and costs next to nothing.
  struct Clock {
    using time_point = std::chrono::steady_clock::time_point;
    static time_point now();
  };

  explicit EventSocket(LoopSocket socket) : socket_(std::move(socket)) {}
  virtual ~EventSocket() = default;
  EventSocket(const EventSocket&) = delete;
  EventSocket& operator=(const EventSocket&) = delete;

 protected:
  // Bytes that came. They are gone when this returns.
  virtual void OnBytes(std::string_view bytes) = 0;
  // Nothing more comes. `orderly`: the other side has ended its sending; else the connection is broken.
  virtual void OnEnd(bool orderly) = 0;
  // All that was sent has left. Only after Send could not do so at once.
  virtual void OnDrained() = 0;

  // For a socket that is connected.
  void Begin();
  // Whether bytes are wanted. After WantBytes(false) one more piece may come.
  void WantBytes(bool want);
  // Once open() and begun; what can't be sent at once waits.
  void Send(std::string_view bytes);
  // No further bytes are sent; they may still come.
  void EndSending();
  // Nothing is called any more. `reset`: the other side sees a broken connection, not an end.
  void CloseSocket(bool reset);

  bool open() const { return open_; }
  size_t unsent() const { return out_.size() - out_done_; }
  // When bytes last left, or began to wait. Of use while there are unsent ones.
  Clock::time_point sending_since() const { return sending_since_; }
  // The other side has ended its sending, though that stands behind bytes that nobody reads at present.
  bool HasUnseenEnd();
  // Bytes that have come and were not yet handed on.
  size_t Available();
  LoopSocket& socket() { return socket_; }

 private:
  // Most requests and events fit into this; what doesn't is read through a buffer that all share.
  static constexpr size_t kInlineSize = 1024;
  // Bytes after which other connections get their turn.
  static constexpr size_t kTurn = 1 << 20;

  void Read();
  void OnRead(const boost::system::error_code& error, size_t bytes);
  void ReadMore();
  void Fail(const boost::system::error_code& error);
  void WaitToSend();
  void SendSome();

  LoopSocket socket_;
  std::array<char, kInlineSize> inline_;
  bool open_ = false, wanted_ = false, reading_ = false, ended_ = false;
  std::string out_;  // what waits to be sent, from out_done_ on
  size_t out_done_ = 0;
  Clock::time_point sending_since_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_EVENT_SOCKET_H_
