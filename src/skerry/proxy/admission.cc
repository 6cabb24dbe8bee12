#include "skerry/proxy/admission.h"

#include <algorithm>
#include <utility>

namespace skerry {

Admission::Admission(std::vector<std::pair<std::string, std::string>> names_and_kinds) {
  for (auto& [name, kind] : names_and_kinds) {
    engines_.push_back({.name = std::move(name), .kind = std::move(kind), .live = {}, .target = {}});
  }
}

// Whether a request may begin on it now.
bool Admission::Serves(const EngineState& engine, const VersionConstraint& constraint) const {
  if (!engine.live || !engine.live->version || !constraint.MetBy(*engine.live->version)) return false;
  if (engine.phase == Phase::kOpen) return true;
  return engine.phase == Phase::kLeaving && engine.policy == PausePolicy::kInPlace && !constraint.exact;
}

// Whether it may begin on it after the switch that is under way.
bool Admission::WillServe(const EngineState& engine, const VersionConstraint& constraint) const {
  if (engine.phase != Phase::kLeaving && engine.phase != Phase::kPaused) return false;
  return engine.target && engine.target->version && constraint.MetBy(*engine.target->version);
}

std::optional<VersionLabel> Admission::Newest() const {
  std::optional<VersionLabel> newest;
  for (const EngineState& engine : engines_) {
    if (engine.phase == Phase::kOut || !engine.live) continue;
    if (!newest || newest->version < engine.live->version) newest = engine.live;
  }
  return newest;
}

Admission::Decision Admission::Decide(const VersionConstraint& constraint) {
  EngineState* best = nullptr;
  bool later = false, any_open = false;
  for (EngineState& engine : engines_) {
    any_open = any_open || engine.phase != Phase::kOut;
    later = later || WillServe(engine, constraint);
    if (Serves(engine, constraint) && (best == nullptr || engine.running < best->running)) best = &engine;
  }
  if (best != nullptr) {
    ++best->running;
    if (constraint.exact) ++best->exact;
    return Admitted{static_cast<size_t>(best - engines_.data()), *best->live};
  }
  if (later) return Later{};
  const std::optional<VersionLabel> newest = Newest();
  Refused refused{.applied = newest ? newest : last_, .leaving_for = {}};
  for (const EngineState& engine : engines_) {
    if (engine.phase == Phase::kLeaving || engine.phase == Phase::kPaused) refused.leaving_for = engine.target;
  }
  const bool known = refused.applied && refused.applied->version;
  if (constraint.pinned()) refused.not_ready = any_open || !known || !constraint.MetBy(*refused.applied->version);
  refused.worth_waiting = !refused.not_ready || !known || constraint.IsAhead(*refused.applied->version);
  return refused;
}

void Admission::Ended(size_t engine, bool exact) {
  --engines_[engine].running;
  if (exact) --engines_[engine].exact;
}

void Admission::SetIn(size_t engine, const VersionLabel& live) {
  EngineState& state = engines_[engine];
  state.in_rotation = true;
  if (state.target) return;
  state.live = last_ = live;
  state.phase = Phase::kOpen;
}

void Admission::SetOut(size_t engine, bool certain) {
  EngineState& state = engines_[engine];
  state.in_rotation = false;
  state.phase = Phase::kOut;
  if (!certain) state.live.reset();
}

void Admission::BeginSwitch(size_t engine, const VersionLabel& target, PausePolicy policy) {
  EngineState& state = engines_[engine];
  state.target = target;
  state.policy = policy;
  if (state.phase == Phase::kOpen) state.phase = Phase::kLeaving;
}

uint64_t Admission::ToWaitFor(size_t engine) const {
  const EngineState& state = engines_[engine];
  if (state.phase != Phase::kLeaving || state.policy == PausePolicy::kAbort) return 0;
  return state.policy == PausePolicy::kDrain ? state.running : state.exact;
}

void Admission::Paused(size_t engine) {
  EngineState& state = engines_[engine];
  if (state.phase == Phase::kLeaving) state.phase = Phase::kPaused;
}

void Admission::Flip(size_t engine) {
  EngineState& state = engines_[engine];
  if (state.target) state.live = state.target;
}

void Admission::EndSwitch(size_t engine) {
  EngineState& state = engines_[engine];
  state.target.reset();
  if (!state.in_rotation || !state.live) {
    state.phase = Phase::kOut;
    return;
  }
  state.phase = Phase::kOpen;
  last_ = state.live;
}

}  // namespace skerry
