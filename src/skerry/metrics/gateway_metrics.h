// The metrics of a gateway; docs/gateway.md lists them. No label grows with the fleet: what concerns one island is
// among its agent's metrics.
#ifndef SKERRY_METRICS_GATEWAY_METRICS_H_
#define SKERRY_METRICS_GATEWAY_METRICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "skerry/board/names.h"
#include "skerry/metrics/request_metrics.h"

namespace skerry {

// Why a request went on to another island.
enum class RetryCause {
  kNotReady,     // 409: it serves another version
  kUnavailable,  // 503
  kUnreachable,  // no connection, or it ended before an answer
  kWrong,        // an answer that can't be trusted
};

// What an autoscaler asks for. nullopt shows as NaN.
struct FleetFigures {
  std::optional<Version> newest, head;           // served by an island; on the board
  std::optional<uint64_t> most_behind;           // versions, of islands that take requests
  uint64_t running = 0, capacity = 0;            // requests on islands that take requests, and what these can run
  uint64_t waiting_now = 0;                      // held, though a version that does is served
  uint64_t waiting_next = 0, waiting_later = 0;  // for the version after the newest; for one beyond that
};

// Thread-safe.
class GatewayMetrics : public RequestMetrics {
 public:
  // `states`: the names of the states that an island can be in, which outlive this.
  GatewayMetrics(MetricRegistry& registry, std::span<const std::string_view> states);
  ~GatewayMetrics();

  void Retried(RetryCause cause);
  void Tokens(uint64_t count);
  void Reported(bool accepted);  // a heartbeat came in
  void ShowFleet(const FleetFigures& figures);
  // In the order of `states`.
  void ShowIslands(std::span<const uint64_t> counts);

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace skerry

#endif  // SKERRY_METRICS_GATEWAY_METRICS_H_
