#include "skerry/agent/reporting.h"

#include <algorithm>

namespace skerry {

IslandReport ReportOf(const IslandIdentity& identity, const std::string& instance, const ListenAddress& listen,
                      const AgentStatus& status, const ProxyLoad& load) {
  IslandReport report{.name = status.name, .instance = instance, .region = identity.region};
  report.url = identity.advertised;
  if (report.url.empty() && listen.host != "0.0.0.0" && listen.host != "::") report.url = "http://" + listen.ToString();
  report.port = listen.port;
  report.run = load.live ? load.live->run : status.run;
  if (load.live) report.version = load.live->version;
  report.head = status.head;
  report.because = status.NotReadyBecause();
  if (report.because.empty() && load.engines == 0) report.because = "no engine takes requests";
  report.ready = report.because.empty();
  report.draining = status.stopping;
  report.engines = load.engines;
  report.running = load.running;
  report.held = load.held;
  report.capacity = identity.capacity != 0 ? identity.capacity
                                           : IslandIdentity::kCapacityOfEngine * std::max<uint64_t>(load.engines, 1);
  return report;
}

}  // namespace skerry
