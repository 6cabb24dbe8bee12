#include "skerry/http/server_connection.h"

#include <utility>

#include "skerry/http/handled_exchange.h"
#include "skerry/http/response_head.h"

namespace skerry {

namespace {

std::string PeerOf(const LoopSocket& socket) {
  boost::system::error_code gone;
  const boost::asio::ip::tcp::endpoint end = socket.remote_endpoint(gone);
  if (gone) return "";
  return ListenAddress{.host = end.address().to_string(), .port = end.port()}.ToString();
}

}  // namespace

ServerConnection::ServerConnection(LoopSocket socket, ServerShared& shared)
    : EventSocket(std::move(socket)), shared_(shared), incoming_(shared.options.max_header) {}

std::shared_ptr<ServerConnection> ServerConnection::Self() {
  return std::static_pointer_cast<ServerConnection>(shared_from_this());
}

void ServerConnection::Serve() {
  EventSocket::Begin();
  if (shared_.tls) tls_.emplace(shared_.tls->Current());
  since_ = Clock::now();
  WantBytes(true);
}

void ServerConnection::Refuse() {
  EventSocket::Begin();
  if (shared_.tls) return CloseHere(/*reset=*/false);  // nothing can be said yet
  Write(WholePlainAnswer(503, "too many connections", /*keep=*/false, /*head_only=*/false));
  state_ = State::kFinishing;
  Finish(/*keep=*/false);
  WantBytes(true);
}

void ServerConnection::CloseUnlessBusy() {
  if (state_ != State::kAnswering && state_ != State::kFinishing) CloseHere(/*reset=*/false);
}

void ServerConnection::Close() { CloseHere(/*reset=*/false); }

void ServerConnection::CheckTimes(Clock::time_point now) {
  const auto self = shared_from_this();
  const WebServerOptions& options = shared_.options;
  // What the client did not take is not kept for it.
  if (unsent() > 0 && now - sending_since() > options.write_timeout) return CloseHere(/*reset=*/true);
  switch (state_) {
    case State::kReading:
      if (now - since_ <= (incoming_.begun() || fresh_ ? options.read_timeout : options.idle_timeout)) return;
      if (!incoming_.begun()) return CloseHere(/*reset=*/false);
      Write(WholePlainAnswer(408, "the request took too long to arrive", /*keep=*/false, /*head_only=*/false));
      return Finish(/*keep=*/false);
    case State::kAnswering:
      // Where more has come than is read, the end that may follow it would go unnoticed.
      if (!for_handler_ && HasUnseenEnd()) return exchange_->OnClientEnd();
      if (incoming_.complete() || refused_body_ || !wants_body_ || now - since_ <= options.read_timeout) return;
      refused_body_ = true;
      exchange_->OnBodyRefused(408, "the request took too long to arrive");
      return;
    case State::kLingering:
      if (now - since_ > kLinger) CloseHere(/*reset=*/false);
      return;
    case State::kFinishing:
      if (keep_ && !incoming_.complete() && now - since_ > options.read_timeout) CloseHere(/*reset=*/false);
      return;
    case State::kClosed: return;
  }
}

std::optional<std::string_view> ServerConnection::Deciphered(std::string_view bytes) {
  constexpr char kHandshake = 0x16;  // begins all that TLS clients say first
  if (!std::exchange(greeted_, true) && bytes.front() != kHandshake) {
    tls_.reset();
    Write(WholePlainAnswer(400, "this address speaks https", /*keep=*/false, /*head_only=*/false));
    Finish(/*keep=*/false);
    return std::nullopt;
  }
  const auto text = tls_->Receive(bytes);
  Send(tls_->Outgoing());
  if (!text) CloseHere(/*reset=*/false);
  return text;
}

void ServerConnection::OnBytes(std::string_view bytes) {
  if (state_ == State::kLingering) return;
  if (tls_) {
    const auto text = Deciphered(bytes);
    if (!text) return;
    if (!text->empty()) OnText(*text);
    if (tls_->ended() && !ended_ && state_ != State::kClosed) OnEnd(/*orderly=*/true);
    return;
  }
  OnText(bytes);
}

void ServerConnection::OnText(std::string_view bytes) {
  const bool begun = incoming_.begun();
  incoming_.Append(bytes);
  if (state_ == State::kReading && !begun && incoming_.begun()) since_ = Clock::now();
  Parse();
  const bool busy = state_ == State::kAnswering || state_ == State::kFinishing;
  if (busy && incoming_.full()) WantBytes(false);
}

void ServerConnection::OnEnd(bool orderly) {
  *gone_ = true;
  ended_ = true;
  if (!orderly) return CloseHere(/*reset=*/false);
  if (state_ == State::kAnswering && incoming_.complete()) return exchange_->OnClientEnd();
  if (state_ != State::kFinishing) return CloseHere(/*reset=*/false);
  // Whoever has asked and then closed one direction still gets the answer.
  if (!incoming_.complete()) keep_ = false;
  if (unsent() == 0) AfterAnswer();
}

void ServerConnection::OnDrained() {
  if (state_ == State::kFinishing) return AfterAnswer();
  if (exchange_) exchange_->OnDrained();
}

void ServerConnection::Parse() {
  if (std::exchange(parsing_, true)) return;  // whoever is at it goes on
  const auto self = shared_from_this();
  while (ParseStep()) {
  }
  parsing_ = false;
}

// False: nothing more can be done until something else happens.
bool ServerConnection::ParseStep() {
  const bool body = state_ == State::kAnswering && wants_body_ && !refused_body_;
  const bool dropping = state_ == State::kFinishing && !refused_body_ && keep_;
  if (state_ != State::kReading && !body && !dropping) return false;
  switch (incoming_.Parse()) {
    case IncomingRequest::Progress::kNeedsMore:
      if (ended_ && state_ == State::kReading) CloseHere(/*reset=*/false);
      return false;
    case IncomingRequest::Progress::kRefused: OnRefused(); return false;
    case IncomingRequest::Progress::kHead: BeginAnswer(); return true;
    case IncomingRequest::Progress::kNeedsLeave:
      if (!dropping) {
        Write("HTTP/1.1 100 Continue\r\n\r\n");
        return true;
      }
      keep_ = false;  // it may send its body or not: nobody can tell what comes next
      if (unsent() == 0) AfterAnswer();
      return false;
    case IncomingRequest::Progress::kBody:
      if (!dropping) {
        if (!for_handler_) since_ = Clock::now();
        exchange_->OnBody(incoming_.piece());
        return true;
      }
      dropped_ += incoming_.piece().size();
      if (dropped_ <= kMaxDropped) return true;
      keep_ = false;
      if (unsent() == 0) AfterAnswer();
      return false;
    case IncomingRequest::Progress::kComplete:
      if (!dropping) {
        exchange_->OnBodyEnd();
      } else if (unsent() == 0) {
        AfterAnswer();
      }
      return true;
  }
  return false;
}

void ServerConnection::BeginAnswer() {
  ServerRequest head = incoming_.TakeHead();
  if (peer_.empty()) peer_ = PeerOf(socket());
  head.peer = peer_;
  head.gone = gone_;
  state_ = State::kAnswering;
  fresh_ = false;
  keep_ = incoming_.framing().keep;
  wants_body_ = true;
  refused_body_ = false;
  dropped_ = 0;
  since_ = Clock::now();
  uint64_t max_body = UINT64_MAX;
  std::shared_ptr<Exchange> exchange;
  if (shared_.options.begin_exchange) {
    exchange = shared_.options.begin_exchange(head, incoming_.framing(), *this, max_body);
  }
  if (state_ != State::kAnswering) return;  // it has been answered already
  for_handler_ = !exchange;
  if (for_handler_) {
    exchange = std::make_shared<HandledExchange>(std::move(head), incoming_.framing(), Self(), shared_);
    max_body = shared_.options.max_body;
  }
  exchange_ = std::move(exchange);
  incoming_.LimitBody(max_body);
}

void ServerConnection::OnRefused() {
  refused_body_ = true;
  const auto [status, why] = incoming_.refusal();
  keep_ = false;
  if (state_ == State::kAnswering) return exchange_->OnBodyRefused(status, why);
  if (state_ == State::kFinishing) {
    if (unsent() == 0) AfterAnswer();
    return;
  }
  Write(WholePlainAnswer(status, why, /*keep=*/false, incoming_.is_head()));
  Finish(/*keep=*/false);
}

void ServerConnection::Write(std::string_view bytes) {
  if (state_ == State::kClosed) return;
  if (!tls_) return Send(bytes);
  tls_->Send(bytes);
  Send(tls_->Outgoing());
}

void ServerConnection::WantBody(bool want) {
  wants_body_ = want;
  if (!want || state_ != State::kAnswering) return;
  since_ = Clock::now();
  Parse();
  WantBytes(true);
}

void ServerConnection::Finish(bool keep) {
  if (state_ == State::kClosed) return;
  state_ = State::kFinishing;
  keep_ = keep_ && keep && !refused_body_ && !shared_.stopping;
  exchange_.reset();
  if (keep_ && !incoming_.complete()) {
    Parse();
    return WantBytes(true);
  }
  if (unsent() == 0) AfterAnswer();
}

void ServerConnection::Abort() {
  exchange_.reset();
  CloseHere(/*reset=*/true);
}

void ServerConnection::AfterAnswer() {
  if (state_ != State::kFinishing) return;
  if (keep_ && !shared_.stopping) {
    if (incoming_.complete()) NextRequest();
    return;
  }
  if (shared_.stopping || ended_) return CloseHere(/*reset=*/false);
  // Closing while bytes of the client are unread would reset the connection, perhaps before the answer was read.
  EndTls();
  if (unsent() == 0) EndSending();
  state_ = State::kLingering;
  since_ = Clock::now();
  WantBytes(true);
}

void ServerConnection::EndTls() {
  if (!tls_) return;
  tls_->End();
  Send(tls_->Outgoing());
}

void ServerConnection::NextRequest() {
  state_ = State::kReading;
  since_ = Clock::now();
  incoming_.Next();
  Parse();
  WantBytes(true);
}

void ServerConnection::CloseHere(bool reset) {
  if (state_ == State::kClosed) return;
  const auto self = Self();
  state_ = State::kClosed;
  *gone_ = true;
  if (!reset) EndTls();
  CloseSocket(reset);
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->OnGone();
  const std::lock_guard lock(shared_.mutex);
  shared_.open.erase(self);
  if (shared_.options.on_connections) shared_.options.on_connections(shared_.open.size());
  shared_.changed.notify_all();
}

}  // namespace skerry
