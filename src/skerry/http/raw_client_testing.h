// A client of a test that sends what it likes, in pieces that it likes, and sees the very bytes of the answers.
#ifndef SKERRY_HTTP_RAW_CLIENT_TESTING_H_
#define SKERRY_HTTP_RAW_CLIENT_TESTING_H_

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace skerry {

class RawClient {
 public:
  // Whatever is waited for longer than this has failed.
  static constexpr int kPatienceSeconds = 20;

  // `receive_buffer`: of the kernel, for clients that take little; 0: its own choice.
  explicit RawClient(uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) throw std::runtime_error("no connection");
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // False: the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Receives until `end` stands in what came, and gives everything up to there. Ends with the connection, too.
  std::string Until(std::string_view end) {
    size_t at = std::string::npos;
    while ((at = received_.find(end)) == std::string::npos && Receive()) {
    }
    const std::string taken = received_.substr(0, at == std::string::npos ? at : at + end.size());
    received_.erase(0, taken.size());
    return taken;
  }
  // All that still comes, up to the end of the connection.
  std::string Rest() {
    while (Receive()) {
    }
    return std::exchange(received_, "");
  }
  // How the connection ended; 0: properly.
  int end_errno() const { return end_errno_; }

  void EndSending() { ::shutdown(socket_, SHUT_WR); }
  void Close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  // Lets the server see an error instead of an end.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    Close();
  }

 private:
  bool Receive() {
    std::array<char, 4096> piece{};
    const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("the server says nothing");
    end_errno_ = got < 0 ? errno : 0;
    if (got > 0) received_.append(piece.data(), static_cast<size_t>(got));
    return got > 0;
  }

  int socket_;
  int end_errno_ = 0;
  std::string received_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_RAW_CLIENT_TESTING_H_
