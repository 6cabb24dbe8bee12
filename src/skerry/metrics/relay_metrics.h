// The metrics of a relay; docs/relay.md lists them.
#ifndef SKERRY_METRICS_RELAY_METRICS_H_
#define SKERRY_METRICS_RELAY_METRICS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/metrics/registry.h"

namespace skerry {

// How a request for a key ended.
enum class RelayedEnd {
  kComplete,     // the bytes that were asked for
  kNotModified,  // 304: the client has them, or waited for a change that did not come
  kNotFound,     // 404
  kRefused,      // 400, 401, 405, 412, 416
  kUnavailable,  // 502, 503: no upstream could give it
  kCutOff,       // what had been sent was not going to be right, or could not be completed
  kClientGone,
};
std::string_view RelayedEndName(RelayedEnd end);

// How an upstream answered.
enum class FetchEnd { kRight, kNotFound, kFailed, kWrong };
std::string_view FetchEndName(FetchEnd end);

// Where the bytes of an object were when they were asked for.
enum class Whereabouts { kHere, kComing, kUpstream };
std::string_view WhereaboutsName(Whereabouts where);

// Thread-safe.
class RelayMetrics {
 public:
  RelayMetrics(MetricRegistry& registry, const std::string& version);
  ~RelayMetrics();
  RelayMetrics(const RelayMetrics&) = delete;
  RelayMetrics& operator=(const RelayMetrics&) = delete;

  void Ended(RelayedEnd end, uint64_t bytes);
  void LookedUp(Whereabouts where);
  void Fetched(const std::string& upstream, FetchEnd end);
  void FetchedBytes(const std::string& upstream, uint64_t bytes);
  void TookToFetch(double seconds);  // an object, until it was found to be right
  void SetUpstream(const std::string& upstream, bool up);
  void SetHead(const std::string& run, uint64_t version, std::chrono::system_clock::time_point seen);
  void HeadMoved();
  void ShowCache(uint64_t bytes, uint64_t limit, uint64_t pinned, uint64_t objects, uint64_t evicted);
  void ShowMemory(uint64_t bytes);  // of objects that the disk had no room for
  void ShowConnections(uint64_t open);
  void ShowWaiting(uint64_t requests);  // for a change of a head

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace skerry

#endif  // SKERRY_METRICS_RELAY_METRICS_H_
