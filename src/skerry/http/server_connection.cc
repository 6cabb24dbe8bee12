#include "skerry/http/server_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <future>
#include <utility>

#include "skerry/http/response_head.h"

namespace skerry {

namespace net = boost::asio;
using boost::system::error_code;

namespace {

std::string PeerOf(const net::ip::tcp::socket& socket) {
  error_code gone;
  const net::ip::tcp::endpoint end = socket.remote_endpoint(gone);
  if (gone) return "";
  return ListenAddress{.host = end.address().to_string(), .port = end.port()}.ToString();
}

ServerResponse Handle(const WebServer::Handler& handler, const ServerRequest& request) {
  try {
    return handler(request);
  } catch (...) {  // nothing of it is told to the client
    return PlainAnswer(500, "internal error");
  }
}

}  // namespace

ServerConnection::ServerConnection(net::ip::tcp::socket socket, ServerShared& shared)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      shared_(shared),
      incoming_(shared.options.max_header, shared.options.max_body),
      gone_(std::make_shared<std::atomic<bool>>(false)) {
  error_code ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);
}

ServerConnection::~ServerConnection() = default;

template <typename Function>
void ServerConnection::Post(Function function) {
  net::post(socket_.get_executor(),
            [self = shared_from_this(), function = std::move(function)]() mutable { function(*self); });
}

void ServerConnection::Serve() {
  Post([](ServerConnection& self) {
    self.StartTimer(self.shared_.options.read_timeout);
    self.Read();
  });
}

void ServerConnection::Refuse() {
  Post([](ServerConnection& self) { self.AnswerAndClose(503, "too many connections"); });
}

void ServerConnection::CloseUnlessBusy() {
  Post([](ServerConnection& self) {
    if (self.state_ != State::kHandling && self.state_ != State::kWriting) self.CloseHere();
  });
}

void ServerConnection::Close() {
  Post([](ServerConnection& self) { self.CloseHere(); });
}

void ServerConnection::StartTimer(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), id = ++timer_id_](const error_code& cancelled) {
    if (!cancelled && id == self->timer_id_) self->OnTimeout();
  });
}

void ServerConnection::StopTimer() {
  ++timer_id_;
  timer_.cancel();
}

void ServerConnection::OnTimeout() {
  if (state_ == State::kReading && incoming_.begun()) return AnswerAndClose(408, "the request took too long to arrive");
  // What the client did not take is not kept for it.
  state_ == State::kWriting ? Abort() : CloseHere();
}

void ServerConnection::NextRequest() {
  state_ = State::kReading;
  StartTimer(incoming_.begun() ? shared_.options.read_timeout : shared_.options.idle_timeout);
  Parse();
  Read();
}

void ServerConnection::Read() {
  const bool busy = state_ != State::kReading && state_ != State::kLingering;
  if (reading_ || ended_ || state_ == State::kClosed || (busy && incoming_.full())) return;
  reading_ = true;
  socket_.async_read_some(net::buffer(read_buffer_),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            self->reading_ = false;
                            if (self->state_ == State::kClosed) return;
                            if (error) return error == net::error::eof ? self->OnEnd() : self->CloseHere();
                            self->OnRead(bytes);
                          });
}

void ServerConnection::OnRead(size_t bytes) {
  if (state_ != State::kLingering) {
    const bool begun = incoming_.begun();
    incoming_.Append({read_buffer_.data(), bytes});
    if (state_ == State::kReading && !begun && incoming_.begun()) StartTimer(shared_.options.read_timeout);
    if (state_ == State::kReading) Parse();
  }
  Read();
}

void ServerConnection::OnEnd() {
  ended_ = true;
  *gone_ = true;
  // Whoever has asked and then closed one direction still gets the answer.
  if (state_ != State::kHandling && state_ != State::kWriting) CloseHere();
}

void ServerConnection::Parse() {
  switch (incoming_.Parse()) {
    case IncomingRequest::Progress::kRefused:
      return AnswerAndClose(incoming_.refusal().status, incoming_.refusal().why);
    case IncomingRequest::Progress::kComplete: return Dispatch();
    case IncomingRequest::Progress::kNeedsMore:
      if (ended_) CloseHere();
      return;
    case IncomingRequest::Progress::kNeedsLeave:
      state_ = State::kContinuing;
      return Write("HTTP/1.1 100 Continue\r\n\r\n", "", [this](bool written) {
        if (!written) return;
        state_ = State::kReading;
        StartTimer(shared_.options.read_timeout);
        Parse();
        Read();
      });
  }
}

void ServerConnection::Dispatch() {
  StopTimer();
  state_ = State::kHandling;
  keep_ = incoming_.keep();
  chunks_ = incoming_.chunks();
  head_only_ = incoming_.is_head();
  const auto request = std::make_shared<ServerRequest>(incoming_.Take());
  request->peer = PeerOf(socket_);
  request->gone = gone_;
  const bool taken = shared_.pool->Add([self = shared_from_this(), request] { self->Run(*request); });
  if (!taken) Answer(PlainAnswer(503, "too many requests are waiting"));
}

void ServerConnection::Run(const ServerRequest& request) {
  if (shared_.cut_off) return;
  auto response = std::make_shared<ServerResponse>(Handle(shared_.handler, request));
  if (response->stream && HasBody(response->status) && request.method != "HEAD") return RunStream(*response);
  Post([response](ServerConnection& self) { self.Answer(std::move(*response)); });
}

std::string ServerConnection::HeadOf(ServerResponse& response) {
  keep_ = keep_ && !shared_.stopping && !(response.stream && !chunks_);
  const ResponseFraming framing{.keep = keep_, .chunked = response.stream && chunks_};
  const auto time = std::chrono::system_clock::now();
  Result<std::string> head = ResponseHead(response, framing, time);
  if (head) return *std::move(head);
  response = PlainAnswer(500, "internal error");
  return *ResponseHead(response, {.keep = keep_, .chunked = false}, time);
}

void ServerConnection::Answer(ServerResponse response) {
  if (state_ == State::kClosed) return;
  state_ = State::kWriting;
  std::string head = HeadOf(response);
  const bool body = HasBody(response.status) && !head_only_;
  Write(std::move(head), body ? std::move(response.body) : "", [this](bool written) {
    if (written) AfterAnswer();
  });
}

void ServerConnection::AnswerAndClose(int status, std::string_view why) {
  if (state_ == State::kClosed) return;
  keep_ = false;
  head_only_ = incoming_.is_head();
  Answer(PlainAnswer(status, why));
  Read();
}

void ServerConnection::AfterAnswer() {
  if (keep_ && !shared_.stopping) return NextRequest();
  if (shared_.stopping || ended_) return CloseHere();
  // Closing while bytes of the client are unread would reset the connection, perhaps before the answer was read.
  error_code ignored;
  socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  state_ = State::kLingering;
  StartTimer(kLinger);
  Read();
}

void ServerConnection::Write(std::string head, std::string body, Written written) {
  if (state_ == State::kClosed) return written(false);
  out_head_ = std::move(head);
  out_body_ = std::move(body);
  out_done_ = 0;
  written_ = std::move(written);
  WriteSome();
}

void ServerConnection::WriteSome() {
  StartTimer(shared_.options.write_timeout);
  const std::array<net::const_buffer, 2> rest = {
      net::buffer(out_head_) + std::min(out_done_, out_head_.size()),
      net::buffer(out_body_) + (std::max(out_done_, out_head_.size()) - out_head_.size())};
  socket_.async_write_some(rest, [self = shared_from_this()](const error_code& error, size_t bytes) {
    if (error) self->CloseHere();
    self->out_done_ += bytes;
    const bool complete = self->out_done_ == self->out_head_.size() + self->out_body_.size();
    if (self->state_ != State::kClosed && !complete) return self->WriteSome();
    self->StopTimer();
    std::exchange(self->written_, nullptr)(self->state_ != State::kClosed);
  });
}

void ServerConnection::CloseHere() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  *gone_ = true;
  StopTimer();
  error_code ignored;
  socket_.close(ignored);
  const std::lock_guard lock(shared_.mutex);
  shared_.open.erase(shared_from_this());
  shared_.changed.notify_all();
}

// A stream's pieces as chunks (RFC 9112, 7.1), or as they are for HTTP/1.0.
class ServerConnection::StreamWriter : public BodyWriter {
 public:
  explicit StreamWriter(ServerConnection& connection) : connection_(connection) {}

  bool Write(std::string_view piece) override {
    if (piece.empty()) return !*connection_.gone_;  // an empty chunk would be the end
    if (!connection_.chunks_) return connection_.WriteAndWait(std::string(piece));
    return connection_.WriteAndWait(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
  }
  bool Stopping() const override { return connection_.shared_.stopping; }

 private:
  ServerConnection& connection_;
};

void ServerConnection::RunStream(ServerResponse& response) {
  bool complete = WriteAndWait(HeadOf(response));
  if (complete && response.stream) {
    StreamWriter writer(*this);
    try {
      complete = response.stream(writer);
    } catch (...) {
      complete = false;
    }
    if (complete && chunks_) complete = WriteAndWait("0\r\n\r\n");
  } else if (complete) {
    complete = WriteAndWait(std::move(response.body));  // HeadOf made an error of it
  }
  Post([complete](ServerConnection& self) { complete ? self.AfterAnswer() : self.Abort(); });
}

// On a handler's thread. The server waits for its handlers before it ends its own thread, so an answer always comes.
bool ServerConnection::WriteAndWait(std::string bytes) {
  const auto written = std::make_shared<std::promise<bool>>();
  Post([written, bytes = std::move(bytes)](ServerConnection& self) mutable {
    if (*self.gone_) return written->set_value(false);
    self.state_ = State::kWriting;
    self.Write(std::move(bytes), "", [written](bool whole) { written->set_value(whole); });
  });
  return written->get_future().get();
}

// A body that ends with the connection is whole to its reader unless the connection is reset.
void ServerConnection::Abort() {
  if (state_ == State::kClosed) return;
  error_code ignored;
  socket_.set_option(net::socket_base::linger(true, 0), ignored);
  CloseHere();
}

}  // namespace skerry
