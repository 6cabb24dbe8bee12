#include "skerry/engine/told_engine.h"

namespace skerry {

Status ToldEngine::TellAbout(std::string name, std::chrono::milliseconds time, std::string pause) {
  return Tell({std::move(name), update_ ? &*update_ : nullptr, std::move(pause), time});
}

Status ToldEngine::Prepare(const WeightUpdate& update) {
  update_ = update;
  return TellAbout("prepare", timeouts_.load);
}

Status ToldEngine::Pause(PausePolicy policy) {
  const bool drain = policy == PausePolicy::kDrain;
  const char* how = drain ? "drain" : policy == PausePolicy::kAbort ? "abort" : "in-place";
  SKERRY_TRY(TellAbout("pause", drain ? timeouts_.drain : timeouts_.control, how));
  paused_ = true;
  return {};
}

Status ToldEngine::Load(const WeightUpdate& update) {
  update_ = update;
  label_ = kUncertainLabel;
  SKERRY_TRY(TellAbout("load", timeouts_.load));
  label_ = update.label;
  return {};
}

Status ToldEngine::ResetCache() { return TellAbout("reset_cache", timeouts_.control); }

Status ToldEngine::Verify(const WeightUpdate& update) {
  if (label_ != update.label) return Fail(Code::kMismatch, "{}: serves '{}', not '{}'", name_, label_, update.label);
  return TellAbout("verify", timeouts_.load);
}

Status ToldEngine::Resume() {
  SKERRY_TRY(TellAbout("resume", timeouts_.control));
  paused_ = false;
  return {};
}

}  // namespace skerry
