// Inside http: what the connections to one server share. It outlives them, as each that is open holds it.
#ifndef SKERRY_HTTP_UPSTREAM_POOL_H_
#define SKERRY_HTTP_UPSTREAM_POOL_H_

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <unordered_set>
#include <vector>

#include "skerry/http/event_loop_core.h"
#include "skerry/http/upstream.h"

namespace skerry {

class UpstreamConnection;

class Upstream::Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(EventLoop& loop, UpstreamOptions options) : options(std::move(options)), io_(loop.core().io) {}

  std::shared_ptr<UpstreamCall> Call(UpstreamCall::Listener& listener, bool to_head, bool fresh);
  void CheckTimes();
  void CloseAll();

  // Of connections
  void Keep(std::shared_ptr<UpstreamConnection> connection);  // its call is over
  void Forget(const std::shared_ptr<UpstreamConnection>& connection);

  size_t idle() const { return idle_.size(); }
  boost::asio::io_context& io() { return io_; }

  const UpstreamOptions options;

 private:
  boost::asio::io_context& io_;
  std::vector<std::shared_ptr<UpstreamConnection>> idle_;  // the last one was used last
  std::unordered_set<std::shared_ptr<UpstreamConnection>> busy_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_UPSTREAM_POOL_H_
