// SGLang, by its HTTP routes. A switch reads the whole checkpoint (POST /update_weights_from_disk). Facts that shape
// it:
//   - flush_cache in the switch itself crashes the scheduler while requests keep their place: the cache is flushed
//   apart
//   - flush_cache is refused while requests run: requests that keep their place are first put back into the queue
//     (pause mode "retract": they keep their tokens and compute their cache again)
//   - update_weight_version and update_weights_from_disk end all requests unless told "abort_all_requests": false
//   - no pause lets requests finish, so PausePolicy::kDrain is not supported here
//   - a failed switch leaves an unknown mixture; the engine's own way back reads the new files
#ifndef SKERRY_ENGINE_SGLANG_ENGINE_H_
#define SKERRY_ENGINE_SGLANG_ENGINE_H_

#include "skerry/engine/checksum_guard.h"
#include "skerry/engine/control_api.h"
#include "skerry/engine/engine_address.h"

namespace skerry {

class SglangEngine : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> Make(const std::string& address, const EngineOptions& options);
  SglangEngine(EngineAddress address, const EngineOptions& options);

  std::string Describe() const override { return api_.name(); }
  // `paused` is what this object did itself: SGLang does not tell.
  Result<EngineFacts> Probe() override;
  Status Check(const Checkpoint& checkpoint) override;
  bool CanPause(PausePolicy policy) const override { return policy != PausePolicy::kDrain; }
  Status Prepare(const WeightUpdate& update) override;
  Status Pause(PausePolicy policy) override;
  Status Load(const WeightUpdate& update) override;
  Status ResetCache() override;
  Status Verify(const WeightUpdate& update) override;
  Status Resume() override;

 private:
  Status SetLabel(std::string_view label);
  Status PauseBy(const char* mode);

  const EngineAddress address_;
  ControlApi api_;
  ChecksumGuard checksums_;
  std::string device_;  // at the last Probe; empty where the server didn't tell
  bool paused_ = false, in_place_ = false;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_SGLANG_ENGINE_H_
