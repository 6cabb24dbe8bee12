#include "skerry/metrics/request_metrics.h"

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

struct RequestMetrics::Series {
  Series(MetricRegistry& registry, const std::string& prefix)
      : seconds(registry.MakeHistogram(prefix + "_request_seconds", "From a request's head to the end of its answer",
                                       ExponentialBuckets(0.001, 4, 10))),
        first_byte(registry.MakeHistogram(prefix + "_first_byte_seconds",
                                          "From a request's head to the first byte of its answer",
                                          ExponentialBuckets(0.001, 4, 10))),
        held(registry.MakeHistogram(prefix + "_held_seconds", "How long held requests were held",
                                    ExponentialBuckets(0.001, 4, 10))),
        in(registry.MakeCounter(prefix + "_body_bytes_total", "Bytes of bodies", {{"direction", "in"}})),
        out(registry.MakeCounter(prefix + "_body_bytes_total", "Bytes of bodies", {{"direction", "out"}})),
        running(registry.MakeGauge(prefix + "_requests_in_flight", "Requests that engines have")),
        waiting(registry.MakeGauge(prefix + "_requests_held", "Requests that wait for a version or a switch")),
        connections(registry.MakeGauge(prefix + "_connections", "Open connections of clients")) {
    for (const RequestEnd end : kEnds) {
      ends.push_back(registry.MakeCounter(prefix + "_requests_total", "Requests by how they ended",
                                          {{"ended", std::string(RequestEndName(end))}}));
    }
  }

  std::vector<Counter> ends;  // in the order of kEnds
  Histogram seconds, first_byte, held;
  Counter in, out;
  Gauge running, waiting, connections;
};

RequestMetrics::RequestMetrics(MetricRegistry& registry, const std::string& prefix)
    : series_(std::make_unique<Series>(registry, prefix)) {}
RequestMetrics::~RequestMetrics() = default;

void RequestMetrics::Ended(RequestEnd end, double seconds, uint64_t bytes_in, uint64_t bytes_out) {
  series_->ends[static_cast<size_t>(end)].Add();
  series_->seconds.Observe(seconds);
  series_->in.Add(static_cast<double>(bytes_in));
  series_->out.Add(static_cast<double>(bytes_out));
}

void RequestMetrics::FirstByte(double seconds) { series_->first_byte.Observe(seconds); }
void RequestMetrics::WasHeld(double seconds) { series_->held.Observe(seconds); }

void RequestMetrics::ShowConnections(uint64_t open) { series_->connections.Set(static_cast<double>(open)); }

void RequestMetrics::Show(uint64_t running, uint64_t held) {
  series_->running.Set(static_cast<double>(running));
  series_->waiting.Set(static_cast<double>(held));
}

}  // namespace skerry
