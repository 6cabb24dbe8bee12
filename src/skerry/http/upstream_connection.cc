#include "skerry/http/upstream_connection.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace skerry {

namespace net = boost::asio;
using boost::system::error_code;

UpstreamConnection::UpstreamConnection(LoopSocket socket, Upstream::Pool& pool)
    : EventSocket(std::move(socket)), pool_(pool.weak_from_this()), options_(pool.options) {}

std::shared_ptr<UpstreamConnection> UpstreamConnection::Self() {
  return std::static_pointer_cast<UpstreamConnection>(shared_from_this());
}

void UpstreamConnection::Connect() {
  error_code is_name;
  const auto address = net::ip::make_address(options_.host, is_name);
  if (!is_name) {
    socket().async_connect({address, options_.port}, [self = Self(), pool = pool_.lock()](const error_code& error) {
      error ? self->Fail(UpstreamFailure::kUnreachable, error.message()) : self->Connected();
    });
    return;
  }
  const auto resolver = std::make_shared<net::ip::tcp::resolver>(socket().get_executor());
  resolver->async_resolve(options_.host, std::to_string(options_.port),
                          [self = Self(), pool = pool_.lock(), resolver](const error_code& error, auto ends) {
                            error ? self->Fail(UpstreamFailure::kUnreachable, error.message()) : self->Resolved(ends);
                          });
}

void UpstreamConnection::Resolved(const net::ip::tcp::resolver::results_type& ends) {
  if (closed_) return;
  net::async_connect(socket(), ends, [self = Self(), pool = pool_.lock()](const error_code& error, const auto&) {
    error ? self->Fail(UpstreamFailure::kUnreachable, error.message()) : self->Connected();
  });
}

void UpstreamConnection::Connected() {
  if (closed_) return;
  connected_ = true;
  since_ = Clock::now();
  Begin();
  const bool waited = !waiting_.empty();
  EventSocket::Send(std::exchange(waiting_, ""));
  WantBytes(wanted_);
  if (waited && unsent() == 0 && listener_ != nullptr) listener_->OnCallDrained();
}

void UpstreamConnection::BeginCall(Listener& listener, bool to_head) {
  reused_ = connected_;
  answered_ = false;
  wanted_ = true;
  since_ = Clock::now();
  incoming_.emplace(options_.max_header, to_head);
  listener_ = &listener;
  if (connected_) WantBytes(true);
}

void UpstreamConnection::Send(std::string_view bytes) {
  since_ = Clock::now();
  connected_ ? EventSocket::Send(bytes) : void(waiting_ += bytes);
}

void UpstreamConnection::WantAnswer(bool want) {
  wanted_ = want;
  WantBytes(want);
  if (!want) return;
  const auto self = shared_from_this();
  since_ = Clock::now();
  Take("");
}

size_t UpstreamConnection::Untold() {
  // What is kept while the answer is wanted says nothing yet: a part of a head, or of the framing between two chunks.
  return (wanted_ ? 0 : received_.size()) + Available();
}

void UpstreamConnection::OnBytes(std::string_view bytes) {
  since_ = Clock::now();
  if (listener_ == nullptr) return Close();  // nobody has asked for anything
  answered_ = true;
  Take(bytes);
}

void UpstreamConnection::Take(std::string_view bytes) {
  if (std::exchange(taking_, true)) return;
  const auto self = shared_from_this();
  if (!received_.empty()) {
    received_ += bytes;
    // The listener may end this call and begin another, whose bytes are not these.
    std::string all = std::exchange(received_, "");
    size_t done = 0;
    while (TakeStep(all, done)) {
    }
    if (listener_ != nullptr) received_ = all.erase(0, done);
  } else {
    size_t done = 0;
    while (TakeStep(bytes, done)) {
    }
    if (listener_ != nullptr) received_ = bytes.substr(done);
  }
  taking_ = false;
  if (listener_ != nullptr && answered_) listener_->OnAnswerPause();
  if (listener_ != nullptr && wanted_ && ended_) OnEnd(/*orderly=*/true);
}

// False: no more can be done with these bytes.
bool UpstreamConnection::TakeStep(std::string_view bytes, size_t& done) {
  if (listener_ == nullptr || !wanted_) return false;
  switch (incoming_->Parse(bytes, done)) {
    case IncomingAnswer::Progress::kNeedsMore: return false;
    case IncomingAnswer::Progress::kHead: listener_->OnAnswerHead(incoming_->TakeHead()); return true;
    case IncomingAnswer::Progress::kBody: listener_->OnAnswerBody(incoming_->piece()); return true;
    case IncomingAnswer::Progress::kComplete:
      // Bytes behind an answer are nobody's, and neither is what would follow them.
      if (done < bytes.size()) closed_ = true;
      Complete();
      return false;
    case IncomingAnswer::Progress::kRefused: Fail(UpstreamFailure::kNoAnswer, incoming_->why()); return false;
  }
  return false;
}

void UpstreamConnection::OnEnd(bool orderly) {
  ended_ = true;
  if (listener_ == nullptr) return Close();
  if (!wanted_ || taking_) return;  // what has come is told first
  if (orderly && received_.empty() && incoming_->End() == IncomingAnswer::Progress::kComplete) return Complete();
  Fail(UpstreamFailure::kBrokeOff,
       incoming_->head_done() ? "the connection ended within an answer" : "the connection ended before an answer");
}

void UpstreamConnection::OnDrained() {
  since_ = Clock::now();
  if (listener_ != nullptr) listener_->OnCallDrained();
}

void UpstreamConnection::Complete() {
  const auto self = Self();
  const bool keep = incoming_->keep() && !closed_ && !ended_ && unsent() == 0;
  Listener* listener = std::exchange(listener_, nullptr);
  received_.clear();
  since_ = Clock::now();
  const auto pool = pool_.lock();
  if (keep && pool) {
    pool->Keep(self);
  } else {
    Close();
  }
  listener->OnAnswerEnd();
}

void UpstreamConnection::Fail(UpstreamFailure kind, std::string_view why) {
  const auto self = Self();
  Listener* listener = std::exchange(listener_, nullptr);
  Close();
  if (listener == nullptr) return;
  listener->OnCallFailed(kind, fmt::format("http://{}:{}: {}", options_.host, options_.port, why));
}

void UpstreamConnection::Cancel() {
  listener_ = nullptr;
  Close();
}

void UpstreamConnection::CloseIdle() { Close(); }

void UpstreamConnection::Close() {
  const auto self = Self();
  closed_ = true;
  CloseSocket(/*reset=*/false);
  if (const auto pool = pool_.lock()) pool->Forget(self);
}

void UpstreamConnection::CheckTimes(Clock::time_point now) {
  if (listener_ == nullptr || !wanted_) return;
  if (!connected_ && now - since_ > options_.connect_timeout) {
    return Fail(UpstreamFailure::kUnreachable,
                fmt::format("no connection within {} ms", options_.connect_timeout.count()));
  }
  if (connected_ && now - since_ > options_.silence_timeout) {
    Fail(UpstreamFailure::kSilent, fmt::format("nothing came for {} s", options_.silence_timeout.count() / 1000.0));
  }
}

}  // namespace skerry
