// An HTTP/1.1 server for small requests and answers, and for streams of events: connections are kept, everything that a
// client sends or fails to send is bounded, handlers may block, exchanges (exchange.h) run on the server's own thread.
// The only header through which Skerry serves HTTP; Boost stays behind it.
#ifndef SKERRY_HTTP_SERVER_H_
#define SKERRY_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/http/event_loop.h"
#include "skerry/http/exchange.h"
#include "skerry/http/headers.h"
#include "skerry/http/listen_address.h"
#include "skerry/http/request.h"

namespace skerry {

// What a stream writes to, on the handler's thread.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  // Returns when the piece has left for the client. False: the client is gone, took nothing for the write timeout, or
  // the server was stopped; whatever else is written goes nowhere.
  virtual bool Write(std::string_view piece) = 0;
  // The server is being stopped: a stream that has no end of its own should end.
  virtual bool Stopping() const = 0;
};

struct ServerResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";  // not sent where there is no body
  HttpHeaders headers;                                     // besides Content-Type, -Length, Date and Connection
  std::string body;                                        // not sent to HEAD, but its length is

  // Instead of `body`: called once, on the handler's thread, to write the body piece by piece. False: the body is
  // incomplete, and the client shall notice. A stream keeps one of the handler's threads for as long as it lasts.
  std::function<bool(BodyWriter&)> stream;
};

// In PEM. They are read again when they have changed.
struct TlsFiles {
  std::string certificate;  // with those that lead to an authority
  std::string key;
};

struct WebServerOptions {
  ListenAddress address;        // port 0: a free one
  std::optional<TlsFiles> tls;  // none: plain HTTP

  // What is not for a handler; none: all requests are. Needs the loop on which exchanges live, which outlives the
  // server.
  BeginExchange begin_exchange;
  EventLoop* loop = nullptr;  // none: the server has its own

  int threads = 4;                             // that run handlers
  size_t max_waiting = 64;                     // requests that wait for one of them; further ones are answered 503
  size_t max_connections = 1024;               // further ones are answered 503 and closed
  std::function<void(size_t)> on_connections;  // told on the loop how many are open, whenever that changes
  size_t max_header = 64 << 10;                // bytes of request line and headers; more is answered 431
  uint64_t max_body = 1 << 20;                 // bytes for a handler; more is answered 413

  // From the first byte of a request (of a fresh connection: from its beginning) to the end of its headers; from there
  // to its end for a handler, else while nothing of the body comes. Then 408.
  std::chrono::milliseconds read_timeout{30'000};
  // Between an answer and the first byte of the next request.
  std::chrono::milliseconds idle_timeout{75'000};
  // A client that takes no byte of an answer for this long is cut off.
  std::chrono::milliseconds write_timeout{30'000};
};

// Serves until it is stopped or destroyed. All functions may be called from any thread, Stop not by a handler.
class WebServer {
 public:
  // Called on one of the handler threads, on several at once. What it throws is answered with 500.
  using Handler = std::function<ServerResponse(const ServerRequest&)>;

  // The server answers as soon as this returns. Errors name the address: kUnavailable where it is in use, kInvalid
  // where it is none of this host's, else kIo. kInvalid for files of TLS that are not what they should be.
  static Result<std::unique_ptr<WebServer>> Listen(WebServerOptions options, Handler handler);
  // Stop(0), then waits for the handlers that still run, however long they take.
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // Where it listens; the port is the real one.
  const ListenAddress& address() const;
  uint16_t port() const { return address().port; }
  std::string url() const;

  // Takes no further connection or request, closes the idle ones, lets the running handlers answer for at most `grace`,
  // then cuts off what is left. False where something was cut off; such a handler may still run, and sees ClientGone().
  bool Stop(std::chrono::milliseconds grace);

  // For tests and metrics: connections that are open, requests that wait for a thread.
  size_t connections() const;
  size_t waiting() const;

 private:
  class Core;
  explicit WebServer(std::unique_ptr<Core> core);
  const std::unique_ptr<Core> core_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_SERVER_H_
