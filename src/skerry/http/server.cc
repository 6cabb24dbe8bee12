#include "skerry/http/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "skerry/http/server_connection.h"

namespace skerry {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;

namespace {

// Connections beyond the limit that are told so; those beyond these are closed without a word.
constexpr size_t kMaxRefusing = 64;
// After accept failed for want of file descriptors or memory.
constexpr std::chrono::milliseconds kAcceptPause{100};

Code CodeOf(const error_code& error) {
  if (error == net::error::address_in_use) return Code::kUnavailable;
  if (error == std::errc::address_not_available) return Code::kInvalid;
  return Code::kIo;
}

}  // namespace

// Accepts on the server's thread, which runs all that connections do but their handlers.
class WebServer::Core {
 public:
  Core(WebServerOptions options, Handler handler) {
    shared_.pool = &pool_.emplace(options.threads, options.max_waiting);
    shared_.options = std::move(options);
    shared_.handler = std::move(handler);
  }
  ~Core() {
    Stop(std::chrono::milliseconds(0));
    pool_.reset();
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  Status Listen() {
    ListenAddress& address = shared_.options.address;
    error_code error;
    const tcp::endpoint end(net::ip::make_address(address.host, error), address.port);
    if (error) return Fail(Code::kInvalid, "cannot listen on \"{}\": that is no IP address", address.host);
    const char* step = "open a socket for";
    acceptor_.open(end.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) {
      step = "listen on";
      acceptor_.bind(end, error);
    }
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (error) return Fail(CodeOf(error), "cannot {} {}: {}", step, address.ToString(), error.message());
    address.port = acceptor_.local_endpoint(error).port();
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  bool Stop(std::chrono::milliseconds grace) {
    const auto deadline = std::chrono::steady_clock::now() + grace;
    std::unique_lock lock(shared_.mutex);
    shared_.stopping = true;
    net::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    for (const auto& connection : shared_.open) connection->CloseUnlessBusy();
    const auto none = [&] { return shared_.open.empty(); };
    const bool ended = shared_.changed.wait_until(lock, deadline, none);
    shared_.cut_off = true;
    for (const auto& connection : shared_.open) connection->Close();
    shared_.changed.wait(lock, none);
    return ended;
  }

  const ListenAddress& address() const { return shared_.options.address; }

  size_t connections() {
    const std::lock_guard lock(shared_.mutex);
    return shared_.open.size();
  }
  size_t waiting() { return pool_->waiting(); }

 private:
  void Accept() {
    acceptor_.async_accept(net::make_strand(io_), [this](const error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        Add(std::move(socket));
        return Accept();
      }
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](const error_code& cancelled) {
        if (!cancelled && acceptor_.is_open()) Accept();
      });
    });
  }

  void Add(tcp::socket socket) {
    const std::lock_guard lock(shared_.mutex);
    const size_t open = shared_.open.size();
    if (shared_.stopping || open >= shared_.options.max_connections + kMaxRefusing) return;
    const auto connection = std::make_shared<ServerConnection>(std::move(socket), shared_);
    shared_.open.insert(connection);
    open < shared_.options.max_connections ? connection->Serve() : connection->Refuse();
  }

  net::io_context io_{1};
  net::executor_work_guard<net::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_{io_};
  net::steady_timer pause_{io_};
  ServerShared shared_;
  std::optional<HandlerPool> pool_;
  std::thread thread_;
};

Result<std::unique_ptr<WebServer>> WebServer::Listen(WebServerOptions options, Handler handler) {
  auto core = std::make_unique<Core>(std::move(options), std::move(handler));
  SKERRY_TRY(core->Listen());
  return std::unique_ptr<WebServer>(new WebServer(std::move(core)));
}

WebServer::WebServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
WebServer::~WebServer() = default;

const ListenAddress& WebServer::address() const { return core_->address(); }
bool WebServer::Stop(std::chrono::milliseconds grace) { return core_->Stop(grace); }
size_t WebServer::connections() const { return core_->connections(); }
size_t WebServer::waiting() const { return core_->waiting(); }

}  // namespace skerry
