#include "skerry/gateway/run_gateway.h"

#include <array>
#include <optional>
#include <utility>

#include "skerry/base/end_signals.h"
#include "skerry/base/log.h"
#include "skerry/gateway/gateway_endpoints.h"
#include "skerry/http/connection_limit.h"

namespace skerry {
namespace {

// Of a client that takes nothing of its answer.
constexpr std::chrono::milliseconds kClientPatience{60'000};

std::array<std::string_view, kIslandStates.size()> StateNames() {
  std::array<std::string_view, kIslandStates.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = IslandStateName(kIslandStates[i]);
  return names;
}

}  // namespace

Status RunGateway(RunGatewayOptions options) {
  const EndSignals signals;
  const auto states = StateNames();
  const std::string run = options.gateway.fleet.run;
  MetricRegistry registry;
  GatewayMetrics metrics(registry, states);
  EventLoop event_loop;
  SKERRY_ASSIGN(const auto gateway, Gateway::Make(event_loop, std::move(options.gateway), metrics));
  GatewayEndpoints endpoints(options.token, *gateway, metrics, registry);
  WebServerOptions web{
      .address = options.listen, .tls = options.tls, .loop = &event_loop, .write_timeout = kClientPatience};
  web.max_connections = ConnectionLimit(options.max_connections);
  web.on_connections = [&](size_t open) { metrics.ShowConnections(open); };
  web.begin_exchange = [&](ServerRequest& head, const RequestFraming& framing, ClientPort& port, uint64_t& max_body) {
    return GatewayEndpoints::Has(head.path()) ? nullptr : gateway->Begin(head, framing, port, max_body);
  };
  SKERRY_ASSIGN(const auto server, WebServer::Listen(std::move(web), [&](const ServerRequest& request) {
                  return endpoints.Answer(request);
                }));
  LogInfo("gateway for run {} listens on {}", run, server->url());
  std::optional<IslandList> list;
  if (!options.islands.empty()) {
    list.emplace(std::move(options.islands), options.list_every,
                 [&](const std::vector<std::string>& urls) { gateway->List(urls); });
  }
  signals.Wait();

  list.reset();
  gateway->Stop();
  (void)server->Stop(options.grace);
  LogInfo("stopped");
  return {};
}

}  // namespace skerry
