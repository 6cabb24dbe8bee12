// The engines beside one checkpoint, switched together.
#ifndef SKERRY_AGENT_ISLAND_H_
#define SKERRY_AGENT_ISLAND_H_

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "skerry/agent/records.h"
#include "skerry/base/file.h"
#include "skerry/engine/engine.h"
#include "skerry/proxy/traffic.h"

namespace skerry {

// What the engine's caches hold from older weights after a switch: forgotten, or kept because the caller asked for it.
enum class CachePolicy { kFlush, kKeep };

struct IslandOptions {
  PausePolicy pause = PausePolicy::kInPlace;
  CachePolicy cache = CachePolicy::kFlush;
  // How long engines that are done with a step of the switch wait for one that is not, before they go on without it.
  std::chrono::milliseconds straggler{30'000};
  // How long requests that must not live through a switch are waited for before it.
  std::chrono::milliseconds drain{60'000};
};

// An engine as the status shows it.
struct EngineView {
  std::string name;     // Engine::Describe
  std::string version;  // of the engine's software; empty: unknown
  std::string label;    // of the weights that it serves for certain; empty: uncertain
  bool in_rotation = false;
  bool paused = false, asleep = false;
  std::string problem;    // why it is out of rotation; empty where it is not
  std::string busy;       // the call that it has not answered yet
  uint64_t failures = 0;  // calls that failed since the agent began
  uint64_t restarts = 0;  // that were noticed
};

struct SwitchReceipt {
  uint64_t engines = 0;     // that serve the update after it
  uint64_t by_changes = 0;  // of these, how many took only what changed
  double prepare_seconds = 0, pause_seconds = 0, load_seconds = 0, reset_seconds = 0, verify_seconds = 0,
         resume_seconds = 0;
  double paused_seconds = 0;  // from the first Pause until the last Resume: no engine made a token
};

// Invariants
//   - An engine is in rotation only while it serves, for certain, the weights of the label that its record says.
//   - Its record is gone, durably, before its first weight call and back after the last: a kill in between, and any
//     call that fails, leaves it uncertain, and only a load of the whole model brings it back.
//   - Engines resume together, after each has been verified.
// One thread makes the calls; Views() may be called from any.
class Island {
 public:
  // Which elements differ from the weights of a label; nullopt: unknown, or too many.
  using Changes = std::function<Result<std::optional<ChangedElements>>(const std::string& from)>;

  // `directory`: where the records are kept. `traffic`: what stands before the engines and outlives this; nullptr:
  // nothing.
  Island(std::vector<std::unique_ptr<Engine>> engines, IslandOptions options, const Path& directory,
         Traffic* traffic = nullptr);
  ~Island();

  // Called on the thread that makes the calls, whenever Views() has become another one.
  void OnChange(std::function<void()> show) { on_change_ = std::move(show); }

  // Asks every engine what it serves. One that was restarted, put to sleep or given other weights is out of rotation
  // from here on.
  void Look();

  // Whether an engine that could be switched now serves something else than `label`.
  bool NeedsSwitch(const std::string& label) const;

  // Switches all engines that need it to the update (whose `changes` are asked for by `changes`): prepares while they
  // serve, then pauses, loads, resets caches, verifies, resumes. An engine that fails is left out of rotation, and the
  // others go on. Returns the first failure when none of the engines made it, or the records could not be written.
  Result<SwitchReceipt> Switch(const WeightUpdate& update, const Checkpoint& checkpoint, const Changes& changes);

  std::vector<EngineView> Views() const;
  // What all engines in rotation serve; nullopt where none is or they differ.
  std::optional<std::string> ServedLabel() const;

 private:
  struct Member;
  class TrafficSwitch;
  using Call = std::function<Status(Engine&)>;

  // Changes a view under the lock, then shows it, and lets requests in or keeps them out accordingly.
  void Show(Member& member, const std::function<void(EngineView&)>& change);

  void SetOut(Member& member, const Error& error, bool keep_record);
  void LookAt(Member& member, const Result<EngineFacts>& facts);
  Status SwitchTogether(std::vector<Member*> members, const WeightUpdate& update, const Checkpoint& checkpoint,
                        const Changes& changes, SwitchReceipt& receipt);
  Status SwitchPaused(std::vector<Member*>& members, SwitchReceipt& receipt);
  // Makes `call` on all members at once; those that fail or lag are set out and leave `members`. Returns the seconds.
  double Together(std::vector<Member*>& members, std::string_view name, const std::function<Call(Member&)>& call,
                  bool harmless);
  void Prepare(std::vector<Member*>& members, const WeightUpdate& update, const Checkpoint& checkpoint,
               const Changes& changes);

  const IslandOptions options_;
  EngineRecords records_;
  Traffic* const traffic_;
  std::vector<std::unique_ptr<Member>> members_;
  std::function<void()> on_change_;
  mutable std::mutex mutex_;  // guards the members' views
};

}  // namespace skerry

#endif  // SKERRY_AGENT_ISLAND_H_
