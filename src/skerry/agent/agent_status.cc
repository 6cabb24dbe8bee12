#include "skerry/agent/agent_status.h"

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusFormat = 1;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json OrNull(const std::optional<Version>& version) { return version ? Json(version->number()) : Json(); }
Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json EngineJson(const EngineView& engine) {
  return {{"engine", engine.name},
          {"software_version", OrNull(engine.version)},
          {"in_rotation", engine.in_rotation},
          {"serves", OrNull(engine.label)},
          {"paused", engine.paused},
          {"asleep", engine.asleep},
          {"busy", OrNull(engine.busy)},
          {"problem", OrNull(engine.problem)},
          {"failures", engine.failures},
          {"restarts", engine.restarts}};
}

Json UpdateJson(const UpdateView& update) {
  const double density =
      update.elements == 0 ? 0 : static_cast<double>(update.changed) / static_cast<double>(update.elements);
  return {{"time", update.time},
          {"to", update.label},
          {"from", OrNull(update.from)},
          {"how", update.how},
          {"patches", update.patches},
          {"bytes_fetched", update.bytes_fetched},
          {"changed", update.changed},
          {"density", density},
          {"tensors", update.tensors},
          {"engines", update.engines.engines},
          {"engines_by_changes", update.engines.by_changes},
          {"seconds",
           {{"plan", update.plan},
            {"fetch", update.fetch},
            {"decode", update.decode},
            {"stage", update.stage},
            {"probe", update.probe},
            {"prepare", update.engines.prepare_seconds},
            {"paused", update.engines.paused_seconds},
            {"pause", update.engines.pause_seconds},
            {"load", update.engines.load_seconds},
            {"reset_cache", update.engines.reset_seconds},
            {"verify", update.engines.verify_seconds},
            {"resume", update.engines.resume_seconds}}}};
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kStarting: return "starting";
    case Phase::kWaiting: return "waiting";
    case Phase::kPlanning: return "planning";
    case Phase::kStaging: return "staging";
    case Phase::kSwitching: return "switching";
  }
  return "unknown";
}

bool AgentStatus::Ready() const { return NotReadyBecause().empty(); }

std::string AgentStatus::NotReadyBecause() const {
  if (stopping) return "stopping";
  if (!caught_up) {
    return failure ? fmt::format("not caught up yet: {}", failure->message)
                   : fmt::format("not caught up yet: {}", PhaseName(phase));
  }
  for (const EngineView& engine : engines) {
    if (engine.in_rotation) return "";
  }
  return engines.empty() ? "no engine" : fmt::format("no engine in rotation: {}", engines.front().problem);
}

std::optional<uint64_t> AgentStatus::Behind() const {
  if (!head || !version) return std::nullopt;
  return *version <= *head ? head->number() - version->number() : 0;
}

std::string ToJson(const AgentStatus& status) {
  Json engines = Json::array();
  for (const EngineView& engine : status.engines) engines.push_back(EngineJson(engine));
  Json failure;
  if (status.failure) {
    failure = {{"time", status.failure->time},
               {"stage", status.failure->stage},
               {"cause", status.failure->cause},
               {"message", status.failure->message},
               {"count", status.failure->count}};
  }
  const Json json = {
      {"format", kStatusFormat},
      {"name", status.name},
      {"board", status.board},
      {"run", status.run},
      {"follow", status.follow},
      {"phase", PhaseName(status.phase)},
      {"stopping", status.stopping},
      {"ready", status.Ready()},
      {"not_ready_because", OrNull(status.NotReadyBecause())},
      {"degraded", status.degraded},
      {"version", OrNull(status.version)},
      {"serves", OrNull(status.served)},
      {"head", OrNull(status.head)},
      {"behind", OrNull(status.Behind())},
      {"checkpoint",
       {{"version", OrNull(status.checkpoint)},
        {"model_digest", OrNull(status.model)},
        {"state_directory", status.state_directory}}},
      {"engines", engines},
      {"failure", failure},
      {"failures", status.failures},
      {"updates", status.updates},
      {"last_update", status.last_update ? UpdateJson(*status.last_update) : Json()},
      {"scrub",
       {{"rounds", status.scrub.rounds}, {"bytes", status.scrub.bytes}, {"mismatches", status.scrub.mismatches}}},
      {"started", status.started},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace skerry
