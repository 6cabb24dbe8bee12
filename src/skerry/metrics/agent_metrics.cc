#include "skerry/metrics/agent_metrics.h"

#include <array>
#include <limits>
#include <map>
#include <mutex>

namespace skerry {

namespace {

constexpr std::array kStages = {AgentStage::kLookup, AgentStage::kFetch,   AgentStage::kDecode,   AgentStage::kVerify,
                                AgentStage::kStage,  AgentStage::kPrepare, AgentStage::kPause,    AgentStage::kCommit,
                                AgentStage::kResume, AgentStage::kScrub,   AgentStage::kRollback, AgentStage::kProbe};
constexpr std::array kCauses = {Code::kInvalid,  Code::kNotFound,    Code::kConflict,
                                Code::kMismatch, Code::kCorrupt,     Code::kUnsupported,
                                Code::kNoSpace,  Code::kUnavailable, Code::kIo};

// 1 ms to about 17 min: a pause of a small model up to the fetch of a large anchor.
std::vector<double> SecondsBounds() { return ExponentialBuckets(0.001, 2, 21); }
// 1 KiB to 1 TiB.
std::vector<double> BytesBounds() { return ExponentialBuckets(1024, 4, 16); }
// 1 to about 10^12.
std::vector<double> CountBounds() { return ExponentialBuckets(1, 10, 13); }
// One element in a million up to all of them.
std::vector<double> RatioBounds() { return {1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1}; }

double NumberOf(std::optional<Version> version) {
  return version ? static_cast<double>(version->number()) : std::numeric_limits<double>::quiet_NaN();
}

double Seconds(AgentMetrics::Time time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

struct EngineSeries {
  Gauge in_rotation, version;
  Counter restarts;
};

}  // namespace

std::string_view AgentStageName(AgentStage stage) {
  switch (stage) {
    case AgentStage::kLookup: return "lookup";
    case AgentStage::kFetch: return "fetch";
    case AgentStage::kDecode: return "decode";
    case AgentStage::kVerify: return "verify";
    case AgentStage::kStage: return "stage";
    case AgentStage::kPrepare: return "prepare";
    case AgentStage::kPause: return "pause";
    case AgentStage::kCommit: return "commit";
    case AgentStage::kResume: return "resume";
    case AgentStage::kScrub: return "scrub";
    case AgentStage::kRollback: return "rollback";
    case AgentStage::kProbe: return "probe";
  }
  return "unknown";
}

// Each series that can be named beforehand exists from the start, at 0: rates and increases over the first failure are
// right only then.
struct AgentMetrics::Series {
  Series(MetricRegistry& of, const std::string& version) : registry(of) {
    registry.MakeGauge("skerry_build_info", "Always 1; the version of Skerry is in its label.", {{"version", version}})
        .Set(1);
    for (const AgentStage stage : kStages) {
      DurationOf(stage);
      for (const Code cause : kCauses) FailuresOf(stage, cause);
    }
    for (const Gauge& gauge : {live_version, staged_version, head_version, versions_behind}) gauge.Set(NumberOf({}));
  }

  Histogram DurationOf(AgentStage stage) {
    return registry.MakeHistogram("skerry_stage_seconds", "Duration of each step of the agent.", SecondsBounds(),
                                  {{"stage", std::string(AgentStageName(stage))}});
  }
  Counter FailuresOf(AgentStage stage, Code cause) {
    return registry.MakeCounter(
        "skerry_failures_total", "Failures by step and cause.",
        {{"stage", std::string(AgentStageName(stage))}, {"cause", std::string(CodeName(cause))}});
  }

  EngineSeries& OfEngine(const std::string& engine) {  // mutex is held
    const auto found = engines.find(engine);
    if (found != engines.end()) return found->second;
    const MetricLabels label = {{"engine", engine}};
    return engines
        .emplace(
            engine,
            EngineSeries{
                registry.MakeGauge("skerry_engine_in_rotation", "1 where the engine gets requests.", label),
                registry.MakeGauge("skerry_engine_version", "Version that the engine serves; NaN: unknown.", label),
                registry.MakeCounter("skerry_engine_restarts_total", "Restarts of the engine that were noticed.",
                                     label)})
        .first->second;
  }

  Gauge MakeGauge(const char* name, const char* help) { return registry.MakeGauge(name, help); }
  Counter MakeCounter(const char* name, const char* help) { return registry.MakeCounter(name, help); }
  Histogram MakeHistogram(const char* name, const char* help, const std::vector<double>& bounds) {
    return registry.MakeHistogram(name, help, bounds);
  }

  MetricRegistry& registry;

  const Histogram update_seconds = MakeHistogram(
      "skerry_update_seconds", "From the decision for a version until engines serve it.", SecondsBounds());
  const Histogram paused_seconds = MakeHistogram(
      "skerry_update_paused_seconds", "From the first pause to the last resume of an update.", SecondsBounds());
  const Histogram update_versions =
      MakeHistogram("skerry_update_versions", "Versions that one update moved by.", ExponentialBuckets(1, 2, 11));
  const Histogram fetched_bytes =
      MakeHistogram("skerry_update_fetched_bytes", "Bytes fetched for an update.", BytesBounds());
  const Histogram changed_elements =
      MakeHistogram("skerry_update_changed_elements", "Elements that an update changed.", CountBounds());
  const Histogram density =
      MakeHistogram("skerry_update_density_ratio", "Changed elements / all elements of the model.", RatioBounds());
  const Counter rollbacks = MakeCounter("skerry_rollbacks_total", "Rollbacks that went live.");

  const Gauge live_version = MakeGauge("skerry_live_version", "Version that the engines in rotation serve.");
  const Gauge staged_version = MakeGauge("skerry_staged_version", "Version in the canonical checkpoint.");
  const Gauge head_version = MakeGauge("skerry_head_version", "Head of the run, as last seen.");
  const Gauge versions_behind = MakeGauge("skerry_versions_behind", "Head - live version.");
  const Gauge last_update =
      MakeGauge("skerry_last_update_timestamp_seconds", "When an update last went live; 0: never.");
  const Gauge last_lookup =
      MakeGauge("skerry_last_lookup_timestamp_seconds", "When the board last told its head; 0: never.");
  const Gauge ready = MakeGauge("skerry_ready", "1 where /readyz says yes.");
  const Gauge degraded = MakeGauge("skerry_degraded", "1 while an error stands that needs a look.");
  const Gauge engines_known = MakeGauge("skerry_engines", "Engines of the island.");
  const Gauge engines_in_rotation = MakeGauge("skerry_engines_in_rotation", "Engines that get requests.");

  const Counter lookups = MakeCounter("skerry_board_lookups_total", "Times that the board was asked for its head.");
  const Counter wakeups = MakeCounter("skerry_wakeups_total", "Hints to look at the board at once.");

  const Gauge cache_bytes = MakeGauge("skerry_object_cache_bytes", "Size of the object cache.");
  const Gauge cache_limit = MakeGauge("skerry_object_cache_limit_bytes", "Bound of the object cache.");
  const Counter scrubbed = MakeCounter("skerry_scrubbed_bytes_total", "Bytes of the checkpoint that were re-read.");
  const Counter mismatches = MakeCounter("skerry_scrub_mismatches_total", "Units whose digest was wrong.");
  const Gauge last_scrub =
      MakeGauge("skerry_last_scrub_timestamp_seconds", "When all of the checkpoint had last been re-read; 0: never.");

  std::mutex mutex;
  std::map<std::string, EngineSeries> engines;  // guarded by mutex, like all below
  std::map<std::string, bool> rotation;
  std::optional<Gauge> run;
};

AgentMetrics::AgentMetrics(MetricRegistry& registry, const std::string& version)
    : series_(std::make_unique<Series>(registry, version)) {}
AgentMetrics::~AgentMetrics() = default;

void AgentMetrics::Took(AgentStage stage, double seconds) { series_->DurationOf(stage).Observe(seconds); }

void AgentMetrics::Failed(AgentStage stage, Code cause) { series_->FailuresOf(stage, cause).Add(); }

void AgentMetrics::Updated(const UpdateFigures& figures, Time when) {
  series_->update_seconds.Observe(figures.total_seconds);
  series_->paused_seconds.Observe(figures.paused_seconds);
  series_->update_versions.Observe(static_cast<double>(figures.versions));
  series_->fetched_bytes.Observe(static_cast<double>(figures.fetched_bytes));
  const auto changed = static_cast<double>(figures.changed_elements);
  series_->changed_elements.Observe(changed);
  if (figures.model_elements > 0) series_->density.Observe(changed / static_cast<double>(figures.model_elements));
  series_->last_update.Set(Seconds(when));
}

void AgentMetrics::RolledBack() { series_->rollbacks.Add(); }

void AgentMetrics::Woken() { series_->wakeups.Add(); }

void AgentMetrics::LookedUp(const Status& outcome, Time when) {
  series_->lookups.Add();
  if (outcome) {
    series_->last_lookup.Set(Seconds(when));
  } else {
    Failed(AgentStage::kLookup, outcome.error().code);
  }
}

void AgentMetrics::SetRun(const RunId& run) {
  const std::lock_guard lock(series_->mutex);
  if (series_->run) series_->run->Set(0);
  series_->run = series_->registry.MakeGauge("skerry_run_info", "1 for the run that is followed, 0 for earlier ones.",
                                             {{"run", run.str()}});
  series_->run->Set(1);
}

void AgentMetrics::SetVersions(const AgentVersions& versions) {
  series_->live_version.Set(NumberOf(versions.live));
  series_->staged_version.Set(NumberOf(versions.staged));
  series_->head_version.Set(NumberOf(versions.head));
  series_->versions_behind.Set(NumberOf(versions.head) - NumberOf(versions.live));
}

void AgentMetrics::SetReady(bool ready) { series_->ready.Set(ready); }
void AgentMetrics::SetDegraded(bool degraded) { series_->degraded.Set(degraded); }

void AgentMetrics::SetEngine(const std::string& engine, bool in_rotation, std::optional<Version> version) {
  const std::lock_guard lock(series_->mutex);
  const EngineSeries& series = series_->OfEngine(engine);
  series.in_rotation.Set(in_rotation);
  series.version.Set(NumberOf(version));
  series_->rotation[engine] = in_rotation;
  size_t serving = 0;
  for (const auto& [name, rotates] : series_->rotation) serving += rotates;
  series_->engines_known.Set(static_cast<double>(series_->rotation.size()));
  series_->engines_in_rotation.Set(static_cast<double>(serving));
}

void AgentMetrics::EngineRestarted(const std::string& engine) {
  const std::lock_guard lock(series_->mutex);
  series_->OfEngine(engine).restarts.Add();
}

void AgentMetrics::SetObjectCache(uint64_t bytes, uint64_t limit) {
  series_->cache_bytes.Set(static_cast<double>(bytes));
  series_->cache_limit.Set(static_cast<double>(limit));
}

void AgentMetrics::Scrubbed(uint64_t bytes) { series_->scrubbed.Add(static_cast<double>(bytes)); }
void AgentMetrics::ScrubMismatch() { series_->mismatches.Add(); }
void AgentMetrics::ScrubPassed(Time when) { series_->last_scrub.Set(Seconds(when)); }

}  // namespace skerry
