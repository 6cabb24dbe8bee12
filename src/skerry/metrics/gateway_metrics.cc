#include "skerry/metrics/gateway_metrics.h"

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace skerry {
namespace {

constexpr std::array<const char*, 4> kCauses = {"not_ready", "unavailable", "unreachable", "wrong"};
constexpr std::array<const char*, 3> kAhead = {"0", "1", "2+"};

double OrNaN(const std::optional<uint64_t>& value) {
  return value ? static_cast<double>(*value) : std::numeric_limits<double>::quiet_NaN();
}
double OrNaN(const std::optional<Version>& version) {
  return OrNaN(version ? std::optional(version->number()) : std::nullopt);
}

}  // namespace

struct GatewayMetrics::Series {
  Series(MetricRegistry& registry, std::span<const std::string_view> states)
      : tokens(registry.MakeCounter("skerry_gateway_tokens_total", "Tokens of answers")),
        accepted(
            registry.MakeCounter("skerry_gateway_reports_total", "Heartbeats of islands", {{"outcome", "accepted"}})),
        refused(
            registry.MakeCounter("skerry_gateway_reports_total", "Heartbeats of islands", {{"outcome", "refused"}})),
        newest(registry.MakeGauge("skerry_gateway_newest_version", "Newest version that an island serves")),
        head(registry.MakeGauge("skerry_gateway_head_version", "Head of the run, as islands saw it")),
        behind(
            registry.MakeGauge("skerry_gateway_versions_behind", "Versions that the last island is behind the head")),
        running(registry.MakeGauge("skerry_gateway_fleet_requests", "Requests that islands have, from whomever")),
        capacity(registry.MakeGauge("skerry_gateway_fleet_capacity", "Requests that islands can run at once")) {
    for (const char* cause : kCauses) {
      retries.push_back(registry.MakeCounter("skerry_gateway_retries_total",
                                             "Times that a request went on to another island", {{"cause", cause}}));
    }
    for (const char* ahead : kAhead) {
      waiting.push_back(registry.MakeGauge("skerry_gateway_waiting_requests",
                                           "Held requests, by how far the version that they want is ahead",
                                           {{"ahead", ahead}}));
    }
    for (const std::string_view state : states) {
      islands.push_back(
          registry.MakeGauge("skerry_gateway_islands", "Islands by state", {{"state", std::string(state)}}));
    }
  }

  std::vector<Counter> retries;         // in the order of kCauses
  std::vector<Gauge> waiting, islands;  // in the order of kAhead; of the states
  Counter tokens, accepted, refused;
  Gauge newest, head, behind, running, capacity;
};

GatewayMetrics::GatewayMetrics(MetricRegistry& registry, std::span<const std::string_view> states)
    : RequestMetrics(registry, "skerry_gateway"), series_(std::make_unique<Series>(registry, states)) {}
GatewayMetrics::~GatewayMetrics() = default;

void GatewayMetrics::Retried(RetryCause cause) { series_->retries[static_cast<size_t>(cause)].Add(); }
void GatewayMetrics::Tokens(uint64_t count) { series_->tokens.Add(static_cast<double>(count)); }
void GatewayMetrics::Reported(bool accepted) { (accepted ? series_->accepted : series_->refused).Add(); }

void GatewayMetrics::ShowFleet(const FleetFigures& figures) {
  series_->newest.Set(OrNaN(figures.newest));
  series_->head.Set(OrNaN(figures.head));
  series_->behind.Set(OrNaN(figures.most_behind));
  series_->running.Set(static_cast<double>(figures.running));
  series_->capacity.Set(static_cast<double>(figures.capacity));
  series_->waiting[0].Set(static_cast<double>(figures.waiting_now));
  series_->waiting[1].Set(static_cast<double>(figures.waiting_next));
  series_->waiting[2].Set(static_cast<double>(figures.waiting_later));
}

void GatewayMetrics::ShowIslands(std::span<const uint64_t> counts) {
  for (size_t i = 0; i < counts.size(); ++i) series_->islands[i].Set(static_cast<double>(counts[i]));
}

}  // namespace skerry
