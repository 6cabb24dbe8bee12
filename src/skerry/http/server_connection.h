// One client's connection to a WebServer: reads requests, has them handled, writes the answers. Only server.cc and
// server_connection.cc include this.
//
// Everything runs on the connection's strand, except Run and what it calls, which are on a handler's thread and come
// back to the strand with Post. A read is always under way as long as the buffer has room, also while a handler works:
// that is how a client that leaves is noticed. What it brings meanwhile (pipelined requests) waits in the buffer.
#ifndef SKERRY_HTTP_SERVER_CONNECTION_H_
#define SKERRY_HTTP_SERVER_CONNECTION_H_

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "skerry/http/handler_pool.h"
#include "skerry/http/incoming_request.h"
#include "skerry/http/server.h"

namespace skerry {

class ServerConnection;

// What the connections of a server share. It outlives them.
struct ServerShared {
  WebServerOptions options;
  WebServer::Handler handler;
  std::atomic<bool> stopping = false;
  std::atomic<bool> cut_off = false;  // requests that no handler has begun are dropped
  HandlerPool* pool = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::shared_ptr<ServerConnection>> open;  // guarded by mutex
};

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  // A client that was told to go may take this long to do so, so that it gets to read why.
  static constexpr std::chrono::milliseconds kLinger{2000};
  static constexpr size_t kReadSize = 8 << 10;

  ServerConnection(boost::asio::ip::tcp::socket socket, ServerShared& shared);
  ~ServerConnection();

  // Each of these may be called from any thread.
  void Serve();
  void Refuse();           // answers 503 and closes
  void CloseUnlessBusy();  // the server is stopping: a request that is being handled is still answered
  void Close();

 private:
  enum class State { kReading, kContinuing, kHandling, kWriting, kLingering, kClosed };
  using Written = std::function<void(bool)>;  // false: the connection is closed
  class StreamWriter;

  template <typename Function>
  void Post(Function function);

  void StartTimer(std::chrono::milliseconds time);
  void StopTimer();
  void OnTimeout();

  void NextRequest();
  void Read();
  void OnRead(size_t bytes);
  void OnEnd();
  void Parse();
  void Dispatch();

  void Run(const ServerRequest& request);
  void RunStream(ServerResponse& response);
  bool WriteAndWait(std::string bytes);

  // Replaces a response that can't be sent by an error.
  std::string HeadOf(ServerResponse& response);
  void Answer(ServerResponse response);
  void AnswerAndClose(int status, std::string_view why);
  void Write(std::string head, std::string body, Written written);
  void WriteSome();
  void AfterAnswer();
  void Abort();
  void CloseHere();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  ServerShared& shared_;
  uint64_t timer_id_ = 0;  // of the wait that counts; an older one may still report

  State state_ = State::kReading;
  IncomingRequest incoming_;
  std::array<char, kReadSize> read_buffer_;  // of the read that is under way
  bool reading_ = false;
  bool ended_ = false;  // nothing more comes from the client
  // Of the request that is answered: whether the connection goes on after it, whether the client understands chunks
  // (HTTP/1.1), and whether it wants no body. The handler's thread reads and writes them while it has the request.
  bool keep_ = true, chunks_ = true, head_only_ = false;
  std::shared_ptr<std::atomic<bool>> gone_;

  std::string out_head_, out_body_;
  size_t out_done_ = 0;
  Written written_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_SERVER_CONNECTION_H_
