// A small HTTP server on loopback whose answers a test writes, the wrong ones too.
#ifndef SKERRY_TESTS_TESTING_HTTP_SERVER_H_
#define SKERRY_TESTS_TESTING_HTTP_SERVER_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "skerry/http/headers.h"

namespace skerry {

struct ReceivedRequest {
  std::string method;
  std::string target;  // path and query as they came
  HttpHeaders headers;
  std::string body;

  std::string Header(std::string_view name) const { return headers.Find(name).value_or(""); }
};

// What goes over the wire, and what happens to the connection then.
struct WireAnswer {
  enum class Then { kKeep, kClose, kReset, kHang };  // kHang: nothing more comes until the server stops
  std::string bytes;
  Then then = Then::kKeep;
};

// A well-formed answer with its Content-Length.
WireAnswer Answer(int status, std::string_view body = "", const HttpHeaders& headers = {});

// Listens on a free port of 127.0.0.1 until it is destroyed. The handler is called on a thread for each connection.
class HttpServer {
 public:
  using Handler = std::function<WireAnswer(const ReceivedRequest&)>;

  explicit HttpServer(Handler handler);
  // Answers in this order; further requests get 500.
  explicit HttpServer(std::vector<WireAnswer> answers);
  ~HttpServer();

  std::string url() const;  // "http://127.0.0.1:PORT"
  int port() const { return port_; }
  int connections() const { return connections_; }
  // All so far.
  std::vector<ReceivedRequest> requests() const;

 private:
  void Accept();
  void Serve(int socket);

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  mutable std::mutex mutex_;
  std::vector<ReceivedRequest> requests_;  // guarded by mutex_
  std::set<int> open_;                     // guarded by mutex_
  std::vector<std::thread> threads_;       // of the accepting thread, until it is joined
  std::thread acceptor_;
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_HTTP_SERVER_H_
