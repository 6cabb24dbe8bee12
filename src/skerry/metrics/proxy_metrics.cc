#include "skerry/metrics/proxy_metrics.h"

#include <array>
#include <string>

namespace skerry {
namespace {

constexpr std::array kEnds = {RequestEnd::kComplete, RequestEnd::kNotReady,   RequestEnd::kNoEngine,
                              RequestEnd::kRefused,  RequestEnd::kClientGone, RequestEnd::kEngineBrokeOff,
                              RequestEnd::kCutOff};

}  // namespace

std::string_view RequestEndName(RequestEnd end) {
  switch (end) {
    case RequestEnd::kComplete: return "complete";
    case RequestEnd::kNotReady: return "not_ready";
    case RequestEnd::kNoEngine: return "no_engine";
    case RequestEnd::kRefused: return "refused";
    case RequestEnd::kClientGone: return "client_gone";
    case RequestEnd::kEngineBrokeOff: return "engine_broke_off";
    case RequestEnd::kCutOff: return "cut_off";
  }
  return "";
}

struct ProxyMetrics::Series {
  explicit Series(MetricRegistry& registry)
      : seconds(registry.MakeHistogram("skerry_proxy_request_seconds", "From a request's head to the end of its answer",
                                       ExponentialBuckets(0.001, 4, 10))),
        first_byte(registry.MakeHistogram("skerry_proxy_first_byte_seconds",
                                          "From a request's head to the first byte of its answer",
                                          ExponentialBuckets(0.001, 4, 10))),
        held(registry.MakeHistogram("skerry_proxy_held_seconds", "How long held requests were held",
                                    ExponentialBuckets(0.001, 4, 10))),
        waited(registry.MakeHistogram("skerry_proxy_switch_wait_seconds",
                                      "How long a switch waited for running requests before its pause",
                                      ExponentialBuckets(0.001, 4, 10))),
        in(registry.MakeCounter("skerry_proxy_body_bytes_total", "Bytes of bodies", {{"direction", "in"}})),
        out(registry.MakeCounter("skerry_proxy_body_bytes_total", "Bytes of bodies", {{"direction", "out"}})),
        running(registry.MakeGauge("skerry_proxy_requests_in_flight", "Requests that engines have")),
        waiting(registry.MakeGauge("skerry_proxy_requests_held", "Requests that wait for a version or a switch")),
        connections(registry.MakeGauge("skerry_proxy_connections", "Open connections of clients")) {
    for (const RequestEnd end : kEnds) {
      ends.push_back(registry.MakeCounter("skerry_proxy_requests_total", "Requests by how they ended",
                                          {{"ended", std::string(RequestEndName(end))}}));
    }
  }

  std::vector<Counter> ends;  // in the order of kEnds
  Histogram seconds, first_byte, held, waited;
  Counter in, out;
  Gauge running, waiting, connections;
};

ProxyMetrics::ProxyMetrics(MetricRegistry& registry) : series_(std::make_unique<Series>(registry)) {}
ProxyMetrics::~ProxyMetrics() = default;

void ProxyMetrics::Ended(RequestEnd end, double seconds, uint64_t bytes_in, uint64_t bytes_out) {
  series_->ends[static_cast<size_t>(end)].Add();
  series_->seconds.Observe(seconds);
  series_->in.Add(static_cast<double>(bytes_in));
  series_->out.Add(static_cast<double>(bytes_out));
}

void ProxyMetrics::FirstByte(double seconds) { series_->first_byte.Observe(seconds); }
void ProxyMetrics::WasHeld(double seconds) { series_->held.Observe(seconds); }
void ProxyMetrics::WaitedForRequests(double seconds) { series_->waited.Observe(seconds); }

void ProxyMetrics::ShowConnections(uint64_t open) { series_->connections.Set(static_cast<double>(open)); }

void ProxyMetrics::Show(uint64_t running, uint64_t held) {
  series_->running.Set(static_cast<double>(running));
  series_->waiting.Set(static_cast<double>(held));
}

}  // namespace skerry
