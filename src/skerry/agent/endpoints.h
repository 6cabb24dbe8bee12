// What an agent answers over HTTP. docs/http-api.md is the normative text.
#ifndef SKERRY_AGENT_ENDPOINTS_H_
#define SKERRY_AGENT_ENDPOINTS_H_

#include <string>

#include "skerry/agent/agent_status.h"
#include "skerry/agent/reconciler.h"
#include "skerry/gateway/island_report.h"
#include "skerry/http/server.h"
#include "skerry/metrics/registry.h"

namespace skerry {

struct EndpointTokens {
  std::string admin;  // opens everything; never empty
  std::string user;   // opens the wake-up; empty: only the admin's does
};

// GET  /healthz           200 while the process lives
// GET  /readyz            200, or 503 and why not
// GET  /metrics           for Prometheus
// GET  /v1/skerry/status  agent_status.h
// GET  /v1/skerry/island  island_report.h
// POST /v1/skerry/wake    look at the board now                    user or admin
// GET|PUT|DELETE /v1/skerry/policy  what is followed               PUT, DELETE: admin
// POST /v1/skerry/rollback          pin an older version           admin
// Thread-safe.
class Endpoints {
 public:
  Endpoints(EndpointTokens tokens, Reconciler& reconciler, const SharedStatus& status, const MetricRegistry& metrics)
      : tokens_(std::move(tokens)), reconciler_(reconciler), status_(status), metrics_(metrics) {}

  // Before the first request: how the island's report is made, on any thread.
  void ShowIsland(std::function<IslandReport()> report) { report_ = std::move(report); }

  // Whether a path is one of these; every other one may be an engine's.
  static bool Has(std::string_view path);
  ServerResponse Answer(const ServerRequest& request);

 private:
  ServerResponse Ready() const;
  ServerResponse ShowPolicy() const;
  ServerResponse SetPolicy(const ServerRequest& request);
  ServerResponse RollBack(const ServerRequest& request);
  // nullopt where the request may do it; else the refusal.
  std::optional<ServerResponse> Refusal(const ServerRequest& request, bool admin_only) const;

  const EndpointTokens tokens_;
  Reconciler& reconciler_;
  const SharedStatus& status_;
  const MetricRegistry& metrics_;
  std::function<IslandReport()> report_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_ENDPOINTS_H_
