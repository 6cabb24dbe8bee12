#include "tests/testing/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>

namespace skerry {
namespace {

// Bytes from a socket, with what was read too far.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}

  std::optional<std::string> Line() {
    size_t end;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!More()) return std::nullopt;
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    return line;
  }
  std::optional<std::string> Take(size_t size) {
    while (buffer_.size() < size) {
      if (!More()) return std::nullopt;
    }
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

 private:
  bool More() {
    char block[65536];
    const ssize_t got = ::recv(socket_, block, sizeof block, 0);
    if (got <= 0) return false;
    buffer_.append(block, static_cast<size_t>(got));
    return true;
  }
  const int socket_;
  std::string buffer_;
};

std::optional<ReceivedRequest> Receive(Connection& connection) {
  const std::optional<std::string> first = connection.Line();
  if (!first) return std::nullopt;
  ReceivedRequest request;
  const size_t space = first->find(' ');
  request.method = first->substr(0, space);
  request.target = first->substr(space + 1, first->rfind(' ') - space - 1);
  while (true) {
    const std::optional<std::string> line = connection.Line();
    if (!line) return std::nullopt;
    if (line->empty()) break;
    const size_t colon = line->find(':');
    const size_t value = line->find_first_not_of(' ', colon + 1);
    request.headers.Add(line->substr(0, colon), value == std::string::npos ? "" : line->substr(value));
  }
  const std::optional<std::string> body =
      connection.Take(std::strtoul(request.Header("Content-Length").c_str(), nullptr, 10));
  if (!body) return std::nullopt;
  request.body = *body;
  return request;
}

void SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void CloseWithReset(int socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(socket);
}

HttpServer::Handler InOrder(std::vector<WireAnswer> answers) {
  auto left = std::make_shared<std::vector<WireAnswer>>(answers.rbegin(), answers.rend());
  auto mutex = std::make_shared<std::mutex>();
  return [left, mutex](const ReceivedRequest&) {
    const std::lock_guard lock(*mutex);
    if (left->empty()) return Answer(500, "no answer is left in the test's list");
    WireAnswer next = left->back();
    left->pop_back();
    return next;
  };
}

}  // namespace

WireAnswer Answer(int status, std::string_view body, const HttpHeaders& headers) {
  std::string bytes = "HTTP/1.1 " + std::to_string(status) + " Text\r\n";
  for (const HttpHeaders::Field& field : headers.fields()) bytes += field.name + ": " + field.value + "\r\n";
  if (!headers.Find("Content-Length")) bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return {bytes + "\r\n" + std::string(body)};
}

HttpServer::HttpServer(std::vector<WireAnswer> answers) : HttpServer(InOrder(std::move(answers))) {}

HttpServer::HttpServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 128) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("no port on loopback");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

HttpServer::~HttpServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string HttpServer::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

std::vector<ReceivedRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::Accept() {
  while (!stopping_) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    ++connections_;
    {
      const std::lock_guard lock(mutex_);
      open_.insert(socket);
      if (stopping_) ::shutdown(socket, SHUT_RDWR);
    }
    threads_.emplace_back([this, socket] { Serve(socket); });
  }
}

void HttpServer::Serve(int socket) {
  Connection connection(socket);
  using Then = WireAnswer::Then;
  Then then = Then::kKeep;
  while (then == Then::kKeep) {
    const std::optional<ReceivedRequest> request = Receive(connection);
    if (!request) break;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    const WireAnswer answer = handler_(*request);
    SendAll(socket, answer.bytes);
    then = answer.then;
    if (then == Then::kHang) connection.Take(1 << 30);  // until the destructor or the client ends the connection
  }
  const std::lock_guard lock(mutex_);
  open_.erase(socket);
  if (then == Then::kReset) {
    CloseWithReset(socket);
  } else {
    ::close(socket);
  }
}

}  // namespace skerry
