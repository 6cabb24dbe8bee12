// `skerry gateway`: one address for a fleet.
#ifndef SKERRY_GATEWAY_RUN_GATEWAY_H_
#define SKERRY_GATEWAY_RUN_GATEWAY_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "skerry/gateway/gateway.h"
#include "skerry/gateway/island_list.h"
#include "skerry/http/listen_address.h"
#include "skerry/http/server.h"

namespace skerry {

struct RunGatewayOptions {
  GatewayOptions gateway;
  ListenAddress listen;
  std::optional<TlsFiles> tls;  // none: plain HTTP
  std::vector<IslandSource> islands;
  std::chrono::milliseconds list_every{5'000};
  std::string token;                        // of islands that register; empty: none may
  size_t max_connections = 20'000;          // lessened to what the process may open
  std::chrono::milliseconds grace{10'000};  // for running requests, at the end
};

// Runs until SIGTERM or SIGINT: then no further request is taken, /readyz says no, running ones get the grace.
Status RunGateway(RunGatewayOptions options);

}  // namespace skerry

#endif  // SKERRY_GATEWAY_RUN_GATEWAY_H_
