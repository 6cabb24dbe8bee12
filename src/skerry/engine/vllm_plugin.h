// The remote calls of the vLLM plugin (python/skerry/vllm): methods that every worker of the engine runs, reached by
// POST /collective_rpc. Each worker answers with an object {"ok", "error", "label", …}; a call has succeeded when all
// workers of the engine answered, each with "ok" and the label that was asked for.
//
//   skerry_status   {}                                        what the worker serves; changes nothing
//   skerry_prepare  {label, base, checkpoint, positions}      starts to get an update ready, beside serving; base and
//                                                             positions are empty for a whole load
//   skerry_prepared {label}                                   "state": preparing, prepared or failed
//   skerry_commit   {label}                                   switches to what is prepared
//   skerry_verify   {label}                                   reads back what the commit touched
#ifndef SKERRY_ENGINE_VLLM_PLUGIN_H_
#define SKERRY_ENGINE_VLLM_PLUGIN_H_

#include <string>
#include <vector>

#include "skerry/base/retry.h"
#include "skerry/engine/control_api.h"

namespace skerry {

// What the workers say together.
struct PluginStatus {
  std::string label;        // that all of them serve; kUncertainLabel where they differ or one of them is uncertain
  std::string instance;     // of all of them
  std::string unsupported;  // why this model can't be moved, of the first worker that says so
};

// Not thread-safe. The api must outlive it.
class VllmPlugin {
 public:
  VllmPlugin(ControlApi& api, Waiting waiting) : api_(api), waiting_(std::move(waiting)) {}

  // nullopt: this engine runs without the plugin. `workers` is how many there must be.
  Result<std::optional<PluginStatus>> Status(uint64_t workers);
  // Returns when every worker is ready.
  skerry::Status Prepare(const WeightUpdate& update, uint64_t workers);
  skerry::Status Commit(const WeightUpdate& update, uint64_t workers);
  skerry::Status Verify(const WeightUpdate& update, uint64_t workers);

 private:
  using Json = nlohmann::json;
  using Answers = std::vector<Json>;  // one object a worker

  Result<Answers> Call(const std::string& method, const Json& arguments, uint64_t workers,
                       std::chrono::milliseconds time);
  // Each worker's "ok", and its "label" where it has one.
  skerry::Status Judge(const std::string& method, const Answers& answers, const std::string& label) const;

  ControlApi& api_;
  const Waiting waiting_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_VLLM_PLUGIN_H_
