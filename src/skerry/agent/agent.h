// `skerry agent`: one process beside the engines of an island.
#ifndef SKERRY_AGENT_AGENT_H_
#define SKERRY_AGENT_AGENT_H_

#include <string>
#include <vector>

#include "skerry/agent/endpoints.h"
#include "skerry/agent/island.h"
#include "skerry/agent/reconciler.h"
#include "skerry/agent/registration.h"
#include "skerry/agent/reporting.h"
#include "skerry/engine/engine.h"
#include "skerry/http/listen_address.h"

namespace skerry {

struct AgentOptions {
  std::string version;  // of Skerry
  ReconcilerOptions reconciler;
  std::vector<std::string> engines;  // specifications (engine.h)
  EngineOptions engine;
  IslandOptions island;
  ListenAddress listen;
  // Requests (docs/proxy.md): where those for engines of kind none, exec and webhook go, in their order.
  std::vector<std::string> upstreams;
  bool namespaces = false;         // the engines' prefix caches are divided by version, instead of IslandOptions::cache
  uint64_t max_body = 64'000'000;  // bytes
  size_t max_connections = 20'000;  // lessened to what the process may open
  std::chrono::milliseconds engine_timeout{3'600'000};
  std::chrono::milliseconds grace{10'000};  // for running requests, at the agent's end
  Path access_log;
  // Towards gateways (docs/gateway.md); none: it can still be asked.
  IslandIdentity identity;
  RegistrationOptions registration;
  EndpointTokens tokens;  // an empty admin token: one is made and kept in the agent's folder, for who may read it
  uint64_t scrub_bytes_per_second = 20'000'000;  // 0: no scrubbing
};

// Where a running agent is and how it is spoken to, in `STATE/agents/NAME/contact.json` (readable by its owner only).
struct AgentContact {
  std::string url;
  std::string admin_token;
};
// kUnavailable where no agent of that name has said so.
Result<AgentContact> ReadContact(const StateDirectory& state, const std::string& name);

// Runs until SIGTERM or SIGINT. kConflict, naming the process, where an agent of that name runs already; what a dead
// one left is taken over. On a signal:
//   - no further request or pass is begun, /readyz says no
//   - engines that are being switched are brought to the end of it
//   - a stage is given up where it is: the next agent finds the checkpoint exactly as it was or exactly as it shall be
Status RunAgent(AgentOptions options, const Reconciler::OpenBoard& open_board);

}  // namespace skerry

#endif  // SKERRY_AGENT_AGENT_H_
