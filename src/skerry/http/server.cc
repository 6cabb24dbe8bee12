#include "skerry/http/server.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "skerry/http/event_loop_core.h"
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

// How often the times of connections are looked at, and at least how often within the shortest of them.
constexpr std::chrono::milliseconds kLook{250};
constexpr int kLooksInATime = 5;

std::chrono::milliseconds LookEvery(const WebServerOptions& options) {
  const auto shortest = std::min({options.read_timeout, options.idle_timeout, options.write_timeout});
  return std::clamp(shortest / kLooksInATime, std::chrono::milliseconds(1), kLook);
}

}  // namespace

// Accepts on the loop, which runs all that connections do but their handlers.
class WebServer::Core {
 public:
  Core(WebServerOptions options, Handler handler) {
    if (options.loop == nullptr) options.loop = &own_loop_.emplace();
    shared_.pool = &pool_.emplace(options.threads, options.max_waiting);
    shared_.options = std::move(options);
    shared_.handler = std::move(handler);
    net::io_context& io = shared_.options.loop->core().io;
    acceptor_.emplace(io);
    pause_.emplace(io);
  }
  ~Core() {
    Stop(std::chrono::milliseconds(0));
    pool_.reset();
    look_.reset();
    // What the loop still has of this has run when this has.
    shared_.options.loop->Do([] {});
    shared_.options.loop->Do([this] {
      acceptor_.reset();
      pause_.reset();
    });
    shared_.options.loop->Do([] {});
  }

  Status Listen() {
    if (shared_.options.tls) {
      SKERRY_ASSIGN(shared_.tls, TlsIdentities::Load(*shared_.options.tls));
    }
    ListenAddress& address = shared_.options.address;
    error_code error;
    const tcp::endpoint end(net::ip::make_address(address.host, error), address.port);
    if (error) return Fail(Code::kInvalid, "cannot listen on \"{}\": that is no IP address", address.host);
    const char* step = "open a socket for";
    acceptor_->open(end.protocol(), error);
    if (!error) acceptor_->set_option(net::socket_base::reuse_address(true), error);
    if (!error) {
      step = "listen on";
      acceptor_->bind(end, error);
    }
    if (!error) acceptor_->listen(net::socket_base::max_listen_connections, error);
    if (error) return Fail(CodeOf(error), "cannot {} {}: {}", step, address.ToString(), error.message());
    address.port = acceptor_->local_endpoint(error).port();
    shared_.options.loop->Do([this] { Accept(); });
    look_ = shared_.options.loop->Every(LookEvery(shared_.options), [this] { CheckTimes(); });
    return {};
  }

  bool Stop(std::chrono::milliseconds grace) {
    const auto deadline = std::chrono::steady_clock::now() + grace;
    shared_.stopping = true;
    shared_.options.loop->Do([this] {
      error_code ignored;
      acceptor_->close(ignored);
      pause_->cancel();
      for (const auto& connection : Open()) connection->CloseUnlessBusy();
    });
    std::unique_lock lock(shared_.mutex);
    const auto none = [&] { return shared_.open.empty(); };
    const bool ended = shared_.changed.wait_until(lock, deadline, none);
    shared_.cut_off = true;
    lock.unlock();
    shared_.options.loop->Do([this] {
      for (const auto& connection : Open()) connection->Close();
    });
    return ended;
  }

  const ListenAddress& address() const { return shared_.options.address; }
  std::string url() const { return (shared_.tls ? "https://" : "http://") + address().ToString(); }

  size_t connections() {
    const std::lock_guard lock(shared_.mutex);
    return shared_.open.size();
  }
  size_t waiting() { return pool_->waiting(); }

 private:
  std::vector<std::shared_ptr<ServerConnection>> Open() {
    const std::lock_guard lock(shared_.mutex);
    return {shared_.open.begin(), shared_.open.end()};
  }

  void CheckTimes() {
    const auto now = std::chrono::steady_clock::now();
    for (const auto& connection : Open()) connection->CheckTimes(now);
  }

  void Accept() {
    acceptor_->async_accept([this](const error_code& error, LoopSocket socket) {
      if (shared_.stopping) return;
      if (!error) {
        Add(std::move(socket));
        return Accept();
      }
      pause_->expires_after(kAcceptPause);
      pause_->async_wait([this](const error_code& cancelled) {
        if (!cancelled && !shared_.stopping) Accept();
      });
    });
  }

  void Add(LoopSocket socket) {
    const size_t open = connections();
    if (open >= shared_.options.max_connections + kMaxRefusing) return;
    const auto connection = std::make_shared<ServerConnection>(std::move(socket), shared_);
    {
      const std::lock_guard lock(shared_.mutex);
      shared_.open.insert(connection);
      if (shared_.options.on_connections) shared_.options.on_connections(shared_.open.size());
    }
    open < shared_.options.max_connections ? connection->Serve() : connection->Refuse();
  }

  std::optional<EventLoop> own_loop_;
  std::optional<net::basic_socket_acceptor<tcp, net::io_context::executor_type>> acceptor_;
  std::optional<net::steady_timer> pause_;
  ServerShared shared_;
  std::optional<HandlerPool> pool_;
  std::shared_ptr<void> look_;
};

Result<std::unique_ptr<WebServer>> WebServer::Listen(WebServerOptions options, Handler handler) {
  auto core = std::make_unique<Core>(std::move(options), std::move(handler));
  SKERRY_TRY(core->Listen());
  return std::unique_ptr<WebServer>(new WebServer(std::move(core)));
}

WebServer::WebServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
WebServer::~WebServer() = default;

const ListenAddress& WebServer::address() const { return core_->address(); }
std::string WebServer::url() const { return core_->url(); }
bool WebServer::Stop(std::chrono::milliseconds grace) { return core_->Stop(grace); }
size_t WebServer::connections() const { return core_->connections(); }
size_t WebServer::waiting() const { return core_->waiting(); }

}  // namespace skerry
