// The metrics of requests that the agent forwards; docs/metrics.md lists them.
#ifndef SKERRY_METRICS_PROXY_METRICS_H_
#define SKERRY_METRICS_PROXY_METRICS_H_

#include "skerry/metrics/request_metrics.h"

namespace skerry {

// Thread-safe.
class ProxyMetrics : public RequestMetrics {
 public:
  explicit ProxyMetrics(MetricRegistry& registry);

  void WaitedForRequests(double seconds);  // a switch, before it could pause

 private:
  Histogram waited_;
};

}  // namespace skerry

#endif  // SKERRY_METRICS_PROXY_METRICS_H_
