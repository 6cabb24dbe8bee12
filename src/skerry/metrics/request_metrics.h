// The metrics of requests that are passed on, by an agent to its engines or by a gateway to its islands;
// docs/metrics.md lists them.
#ifndef SKERRY_METRICS_REQUEST_METRICS_H_
#define SKERRY_METRICS_REQUEST_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/metrics/registry.h"

namespace skerry {

// How a request ended.
enum class RequestEnd {
  kComplete,        // the engine's answer went out as a whole, whatever its status
  kNotReady,        // 409
  kNoEngine,        // 503: none in rotation or to be reached, or too many requests
  kRefused,         // 400, 403, 413, …
  kClientGone,      // it left before the end
  kEngineBrokeOff,  // or was silent for too long, before or within its answer
  kCutOff,          // by a switch or the agent's end
};
std::string_view RequestEndName(RequestEnd end);

// Thread-safe.
class RequestMetrics {
 public:
  // Names begin with `prefix` ("skerry_proxy"). The registry must outlive this.
  RequestMetrics(MetricRegistry& registry, const std::string& prefix);
  ~RequestMetrics();
  RequestMetrics(const RequestMetrics&) = delete;
  RequestMetrics& operator=(const RequestMetrics&) = delete;

  void Ended(RequestEnd end, double seconds, uint64_t bytes_in, uint64_t bytes_out);
  void FirstByte(double seconds);  // from a request's head to the first byte of its answer
  void WasHeld(double seconds);    // until it was admitted or refused
  void Show(uint64_t running, uint64_t held);
  void ShowConnections(uint64_t open);

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace skerry

#endif  // SKERRY_METRICS_REQUEST_METRICS_H_
