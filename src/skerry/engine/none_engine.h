// No engine at all: the island keeps a verified checkpoint on disk and tells nobody.
#ifndef SKERRY_ENGINE_NONE_ENGINE_H_
#define SKERRY_ENGINE_NONE_ENGINE_H_

#include "skerry/engine/engine.h"

namespace skerry {

class NoneEngine : public Engine {
 public:
  std::string Describe() const override { return "none"; }
  Result<EngineFacts> Probe() override {
    return EngineFacts{.kind = "none", .label = label_, .workers = 0, .paused = paused_};
  }
  Status Check(const Checkpoint&) override { return {}; }
  Status Prepare(const WeightUpdate&) override { return {}; }
  Status Pause(PausePolicy) override {
    paused_ = true;
    return {};
  }
  Status Load(const WeightUpdate& update) override {
    label_ = update.label;
    return {};
  }
  Status ResetCache() override { return {}; }
  Status Verify(const WeightUpdate& update) override {
    if (label_ == update.label) return {};
    return Fail(Code::kMismatch, "none: serves '{}', not '{}'", label_, update.label);
  }
  Status Resume() override {
    paused_ = false;
    return {};
  }

 private:
  std::string label_;
  bool paused_ = false;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_NONE_ENGINE_H_
