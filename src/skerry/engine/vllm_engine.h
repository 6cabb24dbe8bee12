// vLLM, by its control routes (VLLM_SERVER_DEV_MODE=1), in one of two ways that Probe finds out:
//   plugin  the server runs with skerry.vllm: prepares beside serving, changes elements in place, reads them back
//   reload  a server as it is: its own loader reads the whole checkpoint again (POST /collective_rpc reload_weights)
// A reload is refused for what it is known to be silently wrong for on the CPU build: mixtures of experts (experts are
// packed at the first load only) and tied embeddings (a packed lm_head stays). The option reload=trust overrides that.
#ifndef SKERRY_ENGINE_VLLM_ENGINE_H_
#define SKERRY_ENGINE_VLLM_ENGINE_H_

#include "skerry/engine/checksum_guard.h"
#include "skerry/engine/control_api.h"
#include "skerry/engine/engine_address.h"
#include "skerry/engine/vllm_plugin.h"

namespace skerry {

class VllmEngine : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> Make(const std::string& address, const EngineOptions& options);
  VllmEngine(EngineAddress address, const EngineOptions& options, Waiting waiting = Waiting::Real());

  std::string Describe() const override { return api_.name(); }
  Result<EngineFacts> Probe() override;
  Status Check(const Checkpoint& checkpoint) override;
  bool TakesChanges() const override { return checked_ == Way::kPlugin; }
  Status Prepare(const WeightUpdate& update) override;
  Status Pause(PausePolicy policy) override;
  Status Load(const WeightUpdate& update) override;
  Status ResetCache() override;
  Status Verify(const WeightUpdate& update) override;
  Status Resume() override;

 private:
  enum class Way { kUnknown, kReload, kPlugin };

  Result<std::string> Label();
  Status SetLabel(std::string_view label);
  Status CheckReload(const Checkpoint& checkpoint);
  // "cpu", "cuda", …; empty where the server doesn't tell.
  std::string Device();
  Status Reload(const WeightUpdate& update);
  // That the way of this moment is the one that Check has approved of.
  Status RequireChecked() const;

  const EngineAddress address_;
  ControlApi api_;
  VllmPlugin plugin_;
  ChecksumGuard checksums_;
  Way way_ = Way::kUnknown, checked_ = Way::kUnknown;  // at the last Probe, at the last successful Check
  std::string instance_, workers_instance_, unsupported_;
  uint64_t workers_ = 1;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_VLLM_ENGINE_H_
