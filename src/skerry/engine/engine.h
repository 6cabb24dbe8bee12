// What the agent asks of an inference engine, whatever its make: pause, switch to other weights, go on.
//
// No engine can take back a weight call. So all checks end before Load, and a Load, ResetCache or Verify that fails
// leaves the engine uncertain: it may serve any mixture of old and new weights, and stays paused and out of rotation
// until a Load of the whole model (WeightUpdate::changes empty) has succeeded and been verified.
#ifndef SKERRY_ENGINE_ENGINE_H_
#define SKERRY_ENGINE_ENGINE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/engine/weight_label.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// What happens to requests that are running at the switch: they keep their place and go on with the new weights, the
// engine lets them finish first (bounded by EngineTimeouts::drain), or they are ended.
enum class PausePolicy { kInPlace, kDrain, kAbort };

// What an engine says about itself.
struct EngineFacts {
  std::string kind;      // "vllm", "sglang", …
  std::string version;   // the engine's own; empty where it says none
  std::string model;     // path or name that it was started with; empty where it says none
  std::string label;     // of the weights that it serves, as WeightLabel gave it; anything else: not ours
  std::string instance;  // another one after each restart of the engine; empty where the engine can't tell
  uint64_t workers = 1;  // processes that each hold a part of the model
  bool paused = false;
  bool asleep = false;  // weights or caches are given up until it is woken; takes no weight call
};

// What an engine's weights are called from the first byte of a Load until all of it is there, so that whoever finds the
// engine after the caller's death does not take them for what they were before. ParseWeightLabel does not know it.
inline constexpr std::string_view kUncertainLabel = "skerry:uncertain";

// The elements of a checkpoint that differ from what the engine serves, as a file that the engine may map: the
// safetensors format, for each touched tensor of the checkpoint an entry of its name with the ascending indices of its
// changed elements (dtype U32 where all of the tensor's indices fit, else U64; shape [n]). Their values are read from
// the checkpoint. The file's name does not end in .safetensors.
struct ChangedElements {
  std::string from;  // label of the weights that they are changes to
  Path positions;
  uint64_t tensors = 0, elements = 0;
};

// The weights that an engine shall serve. The checkpoint is complete and verified, and does not change from Prepare
// until the last call of this update has returned.
struct WeightUpdate {
  std::string label;  // WeightLabel of run and version
  Version version;
  Digest model;                            // digest of the checkpoint's tensors
  Path checkpoint;                         // a complete Hugging Face directory
  std::optional<ChangedElements> changes;  // none: load the whole model
};

// How long a call may take. An engine that does not answer in time counts as failed, and the error names the call.
struct EngineTimeouts {
  std::chrono::milliseconds control{10'000};  // probe, pause in place, resume, caches, labels
  std::chrono::milliseconds drain{60'000};
  std::chrono::milliseconds load{600'000};  // prepare, load, verify
};

// One engine. Not thread-safe: one call at a time, from any thread. Errors: kUnavailable when the engine does not
// answer (again later), kUnsupported when it can't do what is asked (the message says the remedy), kIo when it refused
// or failed, kMismatch when it serves something else than the caller thinks. A message names the engine's address and
// the call. A secret that the engine's address carries is never part of a message.
class Engine {
 public:
  virtual ~Engine() = default;

  // "vllm http://127.0.0.1:8000": for messages, without secrets.
  virtual std::string Describe() const = 0;

  // Asks the engine what it is and does. Changes nothing, may be called at any time.
  virtual Result<EngineFacts> Probe() = 0;

  // Whether this engine can be moved by this adapter to versions of the checkpoint without being silently wrong.
  // kUnsupported with the remedy where not. After a successful Probe, before the first update, and again whenever Probe
  // shows another instance: it may have been started otherwise.
  virtual Status Check(const Checkpoint& checkpoint) = 0;

  // Whether Load makes use of WeightUpdate::changes; without it the caller spares the work of collecting them. Known
  // after Check.
  virtual bool TakesChanges() const { return false; }

  // Whether Pause knows this policy; else it is kUnsupported there.
  virtual bool CanPause(PausePolicy) const { return true; }

  // What can be done of the update while the engine serves. The weights stay as they are, so a failure is harmless.
  virtual Status Prepare(const WeightUpdate& update) = 0;

  // No token is produced from here until Resume. Harmless to repeat.
  virtual Status Pause(PausePolicy policy) = 0;

  // Switches to the update's weights, and tells the engine their label. The engine is paused. Harmless to repeat.
  virtual Status Load(const WeightUpdate& update) = 0;

  // Forgets what was computed from other weights (prefix and encoder caches). The engine is paused.
  virtual Status ResetCache() = 0;

  // Makes sure that the engine serves the update's weights, as far as the engine lets one look: at least the label,
  // with the plugin the digests of what was touched on every worker. The engine is paused.
  virtual Status Verify(const WeightUpdate& update) = 0;

  virtual Status Resume() = 0;
};

// How to speak to an engine.
struct EngineOptions {
  EngineTimeouts timeouts;
  std::string bearer_token;  // for the engine's control routes, where it wants one
};

// The engine that `specification` names; nobody is asked yet:
//   vllm=http://127.0.0.1:8000     also ?reload=trust: what a reload can't be relied on for is reloaded all the same
//                                  also ?verify=checksum: a reload must change the engine's own checksums (O(model))
//   sglang=http://127.0.0.1:30000  with the same options
//   exec=COMMAND                   for /bin/sh, see exec_engine.h
//   webhook=URL                    see webhook_engine.h
//   none                           keeps a verified checkpoint and tells nobody
// kInvalid, saying what is wrong, for anything else.
Result<std::unique_ptr<Engine>> MakeEngine(const std::string& specification, const EngineOptions& options);

// The same for specifications of one engine, however its address is written: whoever were given both would switch it
// twice. Neither options nor user count, and a server is one engine whether it is called vllm or sglang. Holds no
// secret but for exec and webhook, so it is for comparing and not for messages.
std::string EngineIdentity(const std::string& specification);

}  // namespace skerry

#endif  // SKERRY_ENGINE_ENGINE_H_
