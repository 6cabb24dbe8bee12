#include "skerry/http/event_socket.h"

#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <ctime>
#include <utility>

namespace skerry {

namespace net = boost::asio;
using boost::system::error_code;

namespace {

constexpr size_t kSharedSize = 64 << 10;
// Of what waited to be sent, the room that a connection keeps.
constexpr size_t kKeptRoom = 4 << 10;

bool IsPause(const error_code& error) { return error == net::error::would_block || error == net::error::try_again; }

}  // namespace

EventSocket::Clock::time_point EventSocket::Clock::now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

void EventSocket::Begin() {
  error_code ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  open_ = true;
}

void EventSocket::WantBytes(bool want) {
  wanted_ = want;
  Read();
}

void EventSocket::Read() {
  if (!open_ || !wanted_ || reading_ || ended_) return;
  reading_ = true;
  socket_.async_read_some(net::buffer(inline_), [self = shared_from_this()](const error_code& error, size_t bytes) {
    self->OnRead(error, bytes);
  });
}

// No other read begins before all bytes of this one have been handed on.
void EventSocket::OnRead(const error_code& error, size_t bytes) {
  if (!open_) return;
  if (error) {
    Fail(error);
  } else {
    OnBytes({inline_.data(), bytes});
    if (bytes == inline_.size()) ReadMore();
  }
  reading_ = false;
  Read();
}

void EventSocket::ReadMore() {
  thread_local std::array<char, kSharedSize> shared;
  for (size_t total = 0; open_ && wanted_ && total < kTurn;) {
    error_code error;
    const size_t bytes = socket_.read_some(net::buffer(shared), error);
    if (IsPause(error)) return;
    if (error) return Fail(error);
    OnBytes({shared.data(), bytes});
    if (bytes < shared.size()) return;
    total += bytes;
  }
}

void EventSocket::Fail(const error_code& error) {
  if (ended_) return;
  ended_ = true;
  OnEnd(error == net::error::eof);
}

bool EventSocket::HasUnseenEnd() {
  if (!open_ || reading_ || ended_) return false;
  pollfd look{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) == 1 && (look.revents & POLLRDHUP) != 0;
}

size_t EventSocket::Available() {
  error_code error;
  const size_t bytes = open_ ? socket_.available(error) : 0;
  return error ? 0 : bytes;
}

void EventSocket::Send(std::string_view bytes) {
  if (!open_ || bytes.empty()) return;
  if (unsent() > 0) {
    out_ += bytes;
    return;
  }
  error_code error;
  const size_t sent = socket_.write_some(net::buffer(bytes.data(), bytes.size()), error);
  if (error && !IsPause(error)) {
    // Told from the loop, as whoever sends does not expect a call while it does.
    net::post(socket_.get_executor(), [self = shared_from_this(), error] {
      if (self->open_) self->Fail(error);
    });
    return;
  }
  if (sent == bytes.size()) return;
  out_ = bytes.substr(sent);
  sending_since_ = Clock::now();
  WaitToSend();
}

void EventSocket::WaitToSend() {
  socket_.async_wait(LoopSocket::wait_write, [self = shared_from_this()](const error_code& error) {
    if (!self->open_) return;
    if (error) return self->Fail(error);
    self->SendSome();
  });
}

void EventSocket::SendSome() {
  error_code error;
  const size_t sent = socket_.write_some(net::buffer(out_.data() + out_done_, unsent()), error);
  if (error && !IsPause(error)) return Fail(error);
  if (sent > 0) sending_since_ = Clock::now();
  out_done_ += sent;
  if (unsent() > 0) {
    // What has left is not kept for ever.
    if (out_done_ > kSharedSize && out_done_ > out_.size() / 2) out_.erase(0, std::exchange(out_done_, 0));
    return WaitToSend();
  }
  out_done_ = 0;
  out_.clear();
  if (out_.capacity() > kKeptRoom) std::string().swap(out_);
  OnDrained();
}

void EventSocket::EndSending() {
  error_code ignored;
  socket_.shutdown(LoopSocket::shutdown_send, ignored);
}

void EventSocket::CloseSocket(bool reset) {
  open_ = wanted_ = false;
  error_code ignored;
  if (reset) socket_.set_option(net::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

}  // namespace skerry
