// What a gateway answers itself over HTTP. docs/gateway.md is the normative text.
#ifndef SKERRY_GATEWAY_GATEWAY_ENDPOINTS_H_
#define SKERRY_GATEWAY_GATEWAY_ENDPOINTS_H_

#include <string>
#include <string_view>

#include "skerry/gateway/gateway.h"
#include "skerry/http/server.h"
#include "skerry/metrics/registry.h"

namespace skerry {

// GET  /healthz             200 while the process lives
// GET  /readyz              200, or 503 and why no request can be taken
// GET  /metrics             for Prometheus
// GET  /v1/skerry/fleet     fleet_document.h
// POST /v1/skerry/islands   an island's report (island_report.h): it joins, or goes on being there      token
// POST /v1/skerry/islands/leave   {"url": …} or {"port": …}: it is gone                                  token
// Thread-safe.
class GatewayEndpoints {
 public:
  // `token`: of islands; empty: none may register.
  GatewayEndpoints(std::string token, Gateway& gateway, GatewayMetrics& own, const MetricRegistry& metrics)
      : token_(std::move(token)), gateway_(gateway), own_(own), metrics_(metrics) {}

  // Whether a path is one of these; every other one may be an island's.
  static bool Has(std::string_view path);
  ServerResponse Answer(const ServerRequest& request);

 private:
  ServerResponse TakeReport(const ServerRequest& request);
  ServerResponse TakeLeave(const ServerRequest& request);
  // nullopt where the request may do it; else the refusal.
  std::optional<ServerResponse> Refusal(const ServerRequest& request);

  const std::string token_;
  Gateway& gateway_;
  GatewayMetrics& own_;
  const MetricRegistry& metrics_;
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_GATEWAY_ENDPOINTS_H_
