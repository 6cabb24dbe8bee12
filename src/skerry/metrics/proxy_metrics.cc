#include "skerry/metrics/proxy_metrics.h"

namespace skerry {

ProxyMetrics::ProxyMetrics(MetricRegistry& registry)
    : RequestMetrics(registry, "skerry_proxy"),
      waited_(registry.MakeHistogram("skerry_proxy_switch_wait_seconds",
                                     "How long a switch waited for running requests before its pause",
                                     ExponentialBuckets(0.001, 4, 10))) {}

void ProxyMetrics::WaitedForRequests(double seconds) { waited_.Observe(seconds); }

}  // namespace skerry
