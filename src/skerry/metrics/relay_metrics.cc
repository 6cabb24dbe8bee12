#include "skerry/metrics/relay_metrics.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace skerry {
namespace {

constexpr std::array kEnds = {RelayedEnd::kComplete,  RelayedEnd::kNotModified, RelayedEnd::kNotFound,
                              RelayedEnd::kRefused,   RelayedEnd::kUnavailable, RelayedEnd::kCutOff,
                              RelayedEnd::kClientGone};
constexpr std::array kFetchEnds = {FetchEnd::kRight, FetchEnd::kNotFound, FetchEnd::kFailed, FetchEnd::kWrong};
constexpr std::array kPlaces = {Whereabouts::kHere, Whereabouts::kComing, Whereabouts::kUpstream};

}  // namespace

std::string_view RelayedEndName(RelayedEnd end) {
  switch (end) {
    case RelayedEnd::kComplete: return "complete";
    case RelayedEnd::kNotModified: return "not_modified";
    case RelayedEnd::kNotFound: return "not_found";
    case RelayedEnd::kRefused: return "refused";
    case RelayedEnd::kUnavailable: return "unavailable";
    case RelayedEnd::kCutOff: return "cut_off";
    case RelayedEnd::kClientGone: return "client_gone";
  }
  return "";
}

std::string_view FetchEndName(FetchEnd end) {
  switch (end) {
    case FetchEnd::kRight: return "right";
    case FetchEnd::kNotFound: return "not_found";
    case FetchEnd::kFailed: return "failed";
    case FetchEnd::kWrong: return "wrong";
  }
  return "";
}

std::string_view WhereaboutsName(Whereabouts where) {
  switch (where) {
    case Whereabouts::kHere: return "here";
    case Whereabouts::kComing: return "coming";
    case Whereabouts::kUpstream: return "upstream";
  }
  return "";
}

struct RelayMetrics::Series {
  explicit Series(MetricRegistry& all)
      : registry(all),
        sent(all.MakeCounter("skerry_relay_sent_bytes_total", "Bytes of objects that were sent to clients")),
        evicted(all.MakeCounter("skerry_relay_evicted_bytes_total", "Bytes that made room for others")),
        moves(all.MakeCounter("skerry_relay_head_moves_total", "Times that a head was seen to have moved")),
        seconds(all.MakeHistogram("skerry_relay_fetch_seconds",
                                  "From the wish for an object until it was here, checked",
                                  ExponentialBuckets(0.001, 4, 10))),
        cache(all.MakeGauge("skerry_relay_cache_bytes", "Size of the cache")),
        limit(all.MakeGauge("skerry_relay_cache_limit_bytes", "Its bound")),
        pinned(all.MakeGauge("skerry_relay_cache_pinned_bytes", "What of it stays: the way to the head")),
        objects(all.MakeGauge("skerry_relay_cache_objects", "Objects in the cache")),
        memory(all.MakeGauge("skerry_relay_memory_bytes", "Objects in memory, for which the disk had no room")),
        connections(all.MakeGauge("skerry_relay_connections", "Open connections of clients")),
        waiting(all.MakeGauge("skerry_relay_waiting_requests", "Requests that wait for a head to move")) {
    for (const RelayedEnd end : kEnds) {
      ends.push_back(all.MakeCounter("skerry_relay_requests_total", "Requests for keys of the board by how they ended",
                                     {{"ended", std::string(RelayedEndName(end))}}));
    }
    for (const Whereabouts where : kPlaces) {
      lookups.push_back(all.MakeCounter("skerry_relay_lookups_total", "Where objects were when they were asked for",
                                        {{"found", std::string(WhereaboutsName(where))}}));
    }
  }

  MetricRegistry& registry;
  std::vector<Counter> ends, lookups;  // in the order of kEnds, kPlaces
  Counter sent, evicted, moves;
  Histogram seconds;
  Gauge cache, limit, pinned, objects, memory, connections, waiting;
  std::mutex mutex;
  uint64_t evicted_before = 0;  // guarded by mutex
};

RelayMetrics::RelayMetrics(MetricRegistry& registry, const std::string& version)
    : series_(std::make_unique<Series>(registry)) {
  registry.MakeGauge("skerry_build_info", "Always 1; the version of Skerry", {{"version", version}}).Set(1);
}
RelayMetrics::~RelayMetrics() = default;

void RelayMetrics::Ended(RelayedEnd end, uint64_t bytes) {
  series_->ends[static_cast<size_t>(end)].Add();
  series_->sent.Add(static_cast<double>(bytes));
}

void RelayMetrics::LookedUp(Whereabouts where) { series_->lookups[static_cast<size_t>(where)].Add(); }

void RelayMetrics::Fetched(const std::string& upstream, FetchEnd end) {
  series_->registry
      .MakeCounter("skerry_relay_fetches_total", "Requests to upstreams by what came of them",
                   {{"upstream", upstream}, {"result", std::string(FetchEndName(end))}})
      .Add();
}

void RelayMetrics::FetchedBytes(const std::string& upstream, uint64_t bytes) {
  series_->registry
      .MakeCounter("skerry_relay_fetched_bytes_total", "Bytes that came from upstreams", {{"upstream", upstream}})
      .Add(static_cast<double>(bytes));
}

void RelayMetrics::TookToFetch(double seconds) { series_->seconds.Observe(seconds); }

void RelayMetrics::SetUpstream(const std::string& upstream, bool up) {
  series_->registry
      .MakeGauge("skerry_relay_upstream_up", "It answered when it was last asked", {{"upstream", upstream}})
      .Set(up ? 1 : 0);
  for (const FetchEnd end : kFetchEnds) {  // so that the first increase is seen
    series_->registry.MakeCounter("skerry_relay_fetches_total", "Requests to upstreams by what came of them",
                                  {{"upstream", upstream}, {"result", std::string(FetchEndName(end))}});
  }
  FetchedBytes(upstream, 0);
}

void RelayMetrics::SetHead(const std::string& run, uint64_t version, std::chrono::system_clock::time_point seen) {
  series_->registry.MakeGauge("skerry_relay_head_version", "Version of a run's head", {{"run", run}})
      .Set(static_cast<double>(version));
  series_->registry
      .MakeGauge("skerry_relay_head_timestamp_seconds", "When an upstream last told a run's head", {{"run", run}})
      .Set(std::chrono::duration<double>(seen.time_since_epoch()).count());
}

void RelayMetrics::HeadMoved() { series_->moves.Add(); }

void RelayMetrics::ShowCache(uint64_t bytes, uint64_t limit, uint64_t pinned, uint64_t objects, uint64_t evicted) {
  series_->cache.Set(static_cast<double>(bytes));
  series_->limit.Set(static_cast<double>(limit));
  series_->pinned.Set(static_cast<double>(pinned));
  series_->objects.Set(static_cast<double>(objects));
  const std::lock_guard lock(series_->mutex);
  series_->evicted.Add(static_cast<double>(evicted - std::min(evicted, series_->evicted_before)));
  series_->evicted_before = evicted;
}

void RelayMetrics::ShowMemory(uint64_t bytes) { series_->memory.Set(static_cast<double>(bytes)); }
void RelayMetrics::ShowConnections(uint64_t open) { series_->connections.Set(static_cast<double>(open)); }
void RelayMetrics::ShowWaiting(uint64_t requests) { series_->waiting.Set(static_cast<double>(requests)); }

}  // namespace skerry
