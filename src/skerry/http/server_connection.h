// One client's connection to a WebServer: reads requests, has each answered by an exchange, keeps the times. Only
// server.cc and server_connection.cc include this.
//
// Everything runs on the server's loop. A read is always under way as long as the buffer has room, also while a request
// is answered: that is how a client that leaves is noticed. What it brings meanwhile (pipelined requests) waits in the
// buffer.
#ifndef SKERRY_HTTP_SERVER_CONNECTION_H_
#define SKERRY_HTTP_SERVER_CONNECTION_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "skerry/http/event_socket.h"
#include "skerry/http/handler_pool.h"
#include "skerry/http/incoming_request.h"
#include "skerry/http/server.h"
#include "skerry/http/tls.h"

namespace skerry {

class ServerConnection;

// What the connections of a server share. It outlives them.
struct ServerShared {
  WebServerOptions options;
  WebServer::Handler handler;
  std::atomic<bool> stopping = false;
  std::atomic<bool> cut_off = false;  // requests that no handler has begun are dropped
  HandlerPool* pool = nullptr;
  std::unique_ptr<TlsIdentities> tls;  // none: plain HTTP. On the loop

  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_set<std::shared_ptr<ServerConnection>> open;  // guarded by mutex
};

class ServerConnection : public EventSocket, public ClientPort {
 public:
  // A client that was told to go may take this long to do so, so that it gets to read why.
  static constexpr std::chrono::milliseconds kLinger{2000};
  // Of a body that nobody wants: read and dropped so that the connection can go on. A longer one ends it.
  static constexpr uint64_t kMaxDropped = 1 << 20;

  ServerConnection(LoopSocket socket, ServerShared& shared);

  void Serve();
  void Refuse();           // answers 503 and closes
  void CloseUnlessBusy();  // the server is stopping: a request that is being answered still is
  void Close();
  void CheckTimes(Clock::time_point now);

  // ClientPort
  void Write(std::string_view bytes) override;
  size_t unsent() const override { return EventSocket::unsent(); }
  void WantBody(bool want) override;
  void Finish(bool keep) override;
  void Abort() override;

 private:
  // kAnswering: an exchange has the request. kFinishing: its answer is complete and leaves.
  enum class State { kReading, kAnswering, kFinishing, kLingering, kClosed };

  void OnBytes(std::string_view bytes) override;
  void OnEnd(bool orderly) override;
  void OnDrained() override;

  // What the bytes say under TLS; nullopt: nothing that could be taken.
  std::optional<std::string_view> Deciphered(std::string_view bytes);
  void OnText(std::string_view bytes);
  void EndTls();
  void Parse();
  bool ParseStep();
  void BeginAnswer();
  void OnRefused();
  void AfterAnswer();
  void NextRequest();
  void CloseHere(bool reset);
  std::shared_ptr<ServerConnection> Self();

  ServerShared& shared_;
  State state_ = State::kReading;
  std::optional<TlsSession> tls_;
  bool greeted_ = false;  // the first byte has come
  IncomingRequest incoming_;
  std::string peer_;
  std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  bool parsing_ = false;
  bool fresh_ = true;   // no request has come yet
  bool ended_ = false;  // nothing more comes from the client
  bool keep_ = false;   // the connection goes on after this answer
  bool wants_body_ = true;
  bool refused_body_ = false;
  uint64_t dropped_ = 0;
  bool for_handler_ = false;
  Clock::time_point since_;  // when what is waited for began: a request, a part of its body, the client's leaving
};

}  // namespace skerry

#endif  // SKERRY_HTTP_SERVER_CONNECTION_H_
