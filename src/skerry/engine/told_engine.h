// What exec and webhook share: an engine that is told each phase of an update and can be asked nothing. What it serves
// is what the last successful load was, as far as this object knows.
#ifndef SKERRY_ENGINE_TOLD_ENGINE_H_
#define SKERRY_ENGINE_TOLD_ENGINE_H_

#include <optional>
#include <string>

#include "skerry/engine/engine.h"

namespace skerry {

class ToldEngine : public Engine {
 public:
  std::string Describe() const override { return name_; }
  Result<EngineFacts> Probe() override {
    return EngineFacts{.kind = kind_, .label = label_, .workers = 0, .paused = paused_};
  }
  Status Check(const Checkpoint&) override { return {}; }
  Status Prepare(const WeightUpdate& update) override;
  Status Pause(PausePolicy policy) override;
  Status Load(const WeightUpdate& update) override;
  Status ResetCache() override;
  Status Verify(const WeightUpdate& update) override;
  Status Resume() override;

 protected:
  struct Phase {
    std::string name;                // prepare, pause, load, reset_cache, verify, resume
    const WeightUpdate* update;      // of the last Prepare or Load; nullptr before the first
    std::string pause;               // in-place, drain, abort; in phase pause only
    std::chrono::milliseconds time;  // how long it may take
  };
  ToldEngine(std::string kind, std::string name, const EngineTimeouts& timeouts)
      : kind_(std::move(kind)), name_(std::move(name)), timeouts_(timeouts) {}

  virtual Status Tell(const Phase& phase) = 0;

 private:
  Status TellAbout(std::string name, std::chrono::milliseconds time, std::string pause = "");

  const std::string kind_, name_;
  const EngineTimeouts timeouts_;
  std::optional<WeightUpdate> update_;
  std::string label_;
  bool paused_ = false;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_TOLD_ENGINE_H_
