#include "skerry/http/handled_exchange.h"

#include <exception>
#include <future>
#include <utility>

#include "skerry/http/response_head.h"

namespace skerry {

namespace {

ServerResponse Handle(const WebServer::Handler& handler, const ServerRequest& request) {
  try {
    return handler(request);
  } catch (...) {  // nothing of it is told to the client
    return PlainAnswer(500, "internal error");
  }
}

}  // namespace

HandledExchange::HandledExchange(ServerRequest head, const RequestFraming& framing,
                                 std::shared_ptr<ServerConnection> connection, ServerShared& shared)
    : request_(std::move(head)),
      framing_(framing),
      connection_(std::move(connection)),
      shared_(shared),
      keep_(framing.keep) {}

void HandledExchange::OnBodyEnd() {
  const bool taken = shared_.pool->Add([self = shared_from_this()] { self->Run(); });
  if (!taken) Answer(PlainAnswer(503, "too many requests are waiting"));
}

void HandledExchange::OnBodyRefused(int status, std::string_view why) {
  keep_ = false;
  Answer(PlainAnswer(status, why));
}

void HandledExchange::OnDrained() { Tell(true); }

void HandledExchange::OnGone() {
  connection_.reset();
  Tell(false);
}

void HandledExchange::Tell(bool written) {
  if (const auto told = std::exchange(written_, nullptr)) told(written);
}

std::string HandledExchange::HeadOf(ServerResponse& response) {
  keep_ = keep_ && !shared_.stopping && !(response.stream && !framing_.chunks);
  const ResponseFraming framing{.keep = keep_, .chunked = response.stream && framing_.chunks};
  const auto time = std::chrono::system_clock::now();
  Result<std::string> head = ResponseHead(response, framing, time);
  if (head) return *std::move(head);
  response = PlainAnswer(500, "internal error");
  return *ResponseHead(response, {.keep = keep_, .chunked = false}, time);
}

void HandledExchange::Answer(ServerResponse response) {
  if (!connection_) return;
  const auto connection = std::exchange(connection_, nullptr);
  connection->Write(HeadOf(response));
  if (HasBody(response.status) && request_.method != "HEAD") connection->Write(response.body);
  connection->Finish(keep_);
}

void HandledExchange::Run() {
  if (shared_.cut_off) return;
  auto response = std::make_shared<ServerResponse>(Handle(shared_.handler, request_));
  if (response->stream && HasBody(response->status) && request_.method != "HEAD") return RunStream(*response);
  shared_.options.loop->Post([self = shared_from_this(), response] { self->Answer(std::move(*response)); });
}

// A stream's pieces as chunks (RFC 9112, 7.1), or as they are for HTTP/1.0.
class HandledExchange::StreamWriter : public BodyWriter {
 public:
  explicit StreamWriter(HandledExchange& exchange) : exchange_(exchange) {}

  bool Write(std::string_view piece) override {
    if (piece.empty()) return !*exchange_.request_.gone;  // an empty chunk would be the end
    if (!exchange_.framing_.chunks) return exchange_.WriteAndWait(std::string(piece));
    return exchange_.WriteAndWait(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
  }
  bool Stopping() const override { return exchange_.shared_.stopping; }

 private:
  HandledExchange& exchange_;
};

void HandledExchange::RunStream(ServerResponse& response) {
  bool complete = WriteAndWait(HeadOf(response));
  if (complete && response.stream) {
    StreamWriter writer(*this);
    try {
      complete = response.stream(writer);
    } catch (...) {
      complete = false;
    }
    if (complete && framing_.chunks) complete = WriteAndWait("0\r\n\r\n");
  } else if (complete) {
    complete = WriteAndWait(std::move(response.body));  // HeadOf made an error of it
  }
  shared_.options.loop->Post([self = shared_from_this(), complete] {
    if (!self->connection_) return;
    const auto connection = std::exchange(self->connection_, nullptr);
    complete ? connection->Finish(self->keep_) : connection->Abort();
  });
}

// The server waits for its handlers before it ends its own thread, so an answer always comes.
bool HandledExchange::WriteAndWait(std::string bytes) {
  const auto written = std::make_shared<std::promise<bool>>();
  shared_.options.loop->Post([self = shared_from_this(), written, bytes = std::move(bytes)] {
    if (!self->connection_ || *self->request_.gone) return written->set_value(false);
    self->connection_->Write(bytes);
    if (self->connection_->unsent() == 0) return written->set_value(true);
    self->written_ = [written](bool whole) { written->set_value(whole); };
  });
  return written->get_future().get();
}

}  // namespace skerry
