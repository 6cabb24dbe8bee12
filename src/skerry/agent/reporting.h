// What the agent says of its island to whoever sends it requests.
#ifndef SKERRY_AGENT_REPORTING_H_
#define SKERRY_AGENT_REPORTING_H_

#include <cstdint>
#include <string>

#include "skerry/agent/agent_status.h"
#include "skerry/gateway/island_report.h"
#include "skerry/http/listen_address.h"
#include "skerry/proxy/proxy.h"

namespace skerry {

// What does not change while the agent runs.
struct IslandIdentity {
  std::string advertised;  // URL where requests reach it; empty: what `listen` says
  std::string region;
  uint64_t capacity = 0;  // requests that it can run at once; 0: kCapacityOfEngine for each engine in rotation

  // vLLM's default for max_num_seqs on most devices.
  static constexpr uint64_t kCapacityOfEngine = 256;
};

// `instance`: another one after each start. `listen`: the real address; all of the host's addresses mean that whoever
// hears this takes the one that it came from.
IslandReport ReportOf(const IslandIdentity& identity, const std::string& instance, const ListenAddress& listen,
                      const AgentStatus& status, const ProxyLoad& load);

}  // namespace skerry

#endif  // SKERRY_AGENT_REPORTING_H_
