// Requests to a fleet of islands, by version, region, session and load (docs/gateway.md is the normative text).
//
// All requests run on one event loop, as those of an agent do; decisions do too. Several gateways share nothing: each
// hears of the islands by itself.
#ifndef SKERRY_GATEWAY_GATEWAY_H_
#define SKERRY_GATEWAY_GATEWAY_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "skerry/gateway/fleet.h"
#include "skerry/gateway/rate.h"
#include "skerry/http/event_loop.h"
#include "skerry/http/exchange.h"
#include "skerry/http/upstream.h"
#include "skerry/metrics/gateway_metrics.h"
#include "skerry/proxy/hall.h"

namespace skerry {

class Inquiry;
class Routing;

struct GatewayOptions {
  FleetOptions fleet;
  HallOptions hall;
  // How long a request is held, where it doesn't say it itself, until an island does what it wants.
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds island_timeout{3'600'000};  // without a byte of an answer
  std::chrono::milliseconds ask_every{1'000};           // listed islands for their reports
  Path access_log;                                      // empty: none
};

class Gateway {
 public:
  // The header field that requests carry from a gateway to an island; one that comes in with it goes in a circle.
  static constexpr std::string_view kMark = "Skerry-Gateway";

  // The loop and the metrics outlive this. Fails where the access log can't be opened.
  static Result<std::unique_ptr<Gateway>> Make(EventLoop& loop, GatewayOptions options, GatewayMetrics& metrics);
  // No exchange of it is left: the server was stopped. Not on the loop.
  ~Gateway();

  // For WebServerOptions::begin_exchange. On the loop.
  std::shared_ptr<Exchange> Begin(ServerRequest& head, const RequestFraming& framing, ClientPort& port,
                                  uint64_t& max_body);

  // From any thread but the loop's; each call returns when it has taken effect.
  // An island says how it is; its url is set. kNoSpace where there are too many.
  Status Report(IslandReport report);
  void Leave(const std::string& url);
  // The islands to be asked for their reports. Urls are canonical.
  void List(const std::vector<std::string>& urls);
  // Why no request can be taken; empty: some can.
  std::string NotReadyBecause();
  // The document of /v1/skerry/fleet.
  std::string Document();
  // New requests are refused from here on, and none is held.
  void Stop();

  // Of routings and inquiries, on the loop.
  const GatewayOptions& options() const { return options_; }
  Fleet& fleet() { return fleet_; }
  Hall& hall() { return hall_; }
  GatewayMetrics& metrics() { return metrics_; }
  void AddRunning(Routing* routing) { running_.insert(routing); }
  void RemoveRunning(Routing* routing) { running_.erase(routing); }
  uint64_t NextTicket() { return ++ticket_; }
  void Tokens(uint64_t count);
  void Lied(Island& island, const std::string& why);
  Status TakeReport(IslandReport report);
  void Done(const Inquiry* inquiry);
  Rate& tokens() { return tokens_; }
  Rate& requests() { return requests_; }
  size_t running() const { return running_.size(); }

 private:
  Gateway(EventLoop& loop, GatewayOptions options, GatewayMetrics& metrics, AccessLog log);

  void Link(Island& island);
  void Ask(Fleet::Time now);
  void Tick();
  void ShowMetrics(Fleet::Time now);

  EventLoop& loop_;
  const GatewayOptions options_;
  GatewayMetrics& metrics_;
  Hall hall_;
  Fleet fleet_;
  std::unordered_set<Routing*> running_;
  std::unordered_map<const Inquiry*, std::shared_ptr<Inquiry>> inquiries_;
  Rate tokens_, requests_;
  uint64_t ticket_;
  Fleet::Time asked_{};
  std::shared_ptr<void> tick_;
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_GATEWAY_H_
