// The metrics of an agent: all that docs/metrics.md lists, and nothing else (agent_metrics_test.cc compares the two).
// Names follow Prometheus's habits: base units (seconds, bytes, ratios of 1), `_total` at counters.
#ifndef SKERRY_METRICS_AGENT_METRICS_H_
#define SKERRY_METRICS_AGENT_METRICS_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/metrics/registry.h"

namespace skerry {

// The steps of an update in their order, and what else an agent does that can fail.
enum class AgentStage {
  kLookup,   // asking the board for the head
  kFetch,    // objects from the board into the cache, with their SHA-256
  kDecode,   // patches into changes, with the proof that they lead to the version's digest
  kStage,    // writing the changes to the canonical checkpoint
  kPrepare,  // what engines do for the update while they serve
  kPause,
  kCommit,  // loading and forgetting caches on the engines
  kVerify,  // making sure of it, on the engines
  kResume,
  kScrub,     // re-reading the canonical checkpoint in the background
  kRollback,  // going back over the undo log
  kProbe,     // asking engines how they are
};
std::string_view AgentStageName(AgentStage stage);

// What was measured of one update that went live. Seconds are wall time.
struct UpdateFigures {
  double total_seconds = 0;   // from the decision for a version until engines serve it
  double paused_seconds = 0;  // from the first pause until the last engine was resumed
  uint64_t versions = 0;      // that the live version moved by; several behind = one update
  uint64_t fetched_bytes = 0;
  uint64_t changed_elements = 0;
  uint64_t model_elements = 0;  // of the checkpoint; 0: unknown, then no density is recorded
};

// Where the agent is. nullopt shows as NaN.
struct AgentVersions {
  std::optional<Version> live;    // that the engines in rotation serve
  std::optional<Version> staged;  // in the canonical checkpoint
  std::optional<Version> head;    // of the board, as last seen
};

// Thread-safe.
class AgentMetrics {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `version`: of Skerry, for skerry_build_info. The registry must outlive this.
  AgentMetrics(MetricRegistry& registry, const std::string& version);
  ~AgentMetrics();
  AgentMetrics(const AgentMetrics&) = delete;
  AgentMetrics& operator=(const AgentMetrics&) = delete;

  // Of each attempt, also of one that fails or isn't committed.
  void Took(AgentStage stage, double seconds);
  void Failed(AgentStage stage, Code cause);
  void Updated(const UpdateFigures& figures, Time when);
  void RolledBack();

  // A hint came in (POST /v1/skerry/wake, a signal); polls do not count.
  void Woken();
  // The board was asked for its head. Counts a failure too.
  void LookedUp(const Status& outcome, Time when);

  void SetRun(const RunId& run);
  void SetVersions(const AgentVersions& versions);
  void SetReady(bool ready);
  void SetDegraded(bool degraded);
  // `engine`: Engine::Describe(), which holds no secret.
  void SetEngine(const std::string& engine, bool in_rotation, std::optional<Version> version);
  void EngineRestarted(const std::string& engine);

  void SetObjectCache(uint64_t bytes, uint64_t limit);
  void Scrubbed(uint64_t bytes);
  void ScrubMismatch();
  void ScrubPassed(Time when);  // all of the checkpoint was read once more

 private:
  struct Series;
  const std::unique_ptr<Series> series_;
};

}  // namespace skerry

#endif  // SKERRY_METRICS_AGENT_METRICS_H_
