// The agent's loop: makes what the engines serve what the policy wants, over and over.
#ifndef SKERRY_AGENT_RECONCILER_H_
#define SKERRY_AGENT_RECONCILER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "skerry/agent/agent_status.h"
#include "skerry/agent/island.h"
#include "skerry/agent/policy.h"
#include "skerry/apply/catch_up.h"
#include "skerry/base/clock.h"
#include "skerry/board/board.h"
#include "skerry/metrics/agent_metrics.h"

namespace skerry {

// The folders of a state directory.
struct StateDirectory {
  Path root;
  Path Checkpoint() const { return root / "checkpoint"; }
  Path Objects() const { return root / "objects"; }
  // What belongs to one of the agents that share the checkpoint.
  Path Agent(const std::string& name) const { return root / "agents" / name; }
};

// The side files that a version has, by its manifest; none where that can't be learned.
struct VersionSideFiles {
  VersionLabel label;
  Digest model;
  std::optional<std::vector<SideFile>> files;
};

struct ReconcilerOptions {
  StateDirectory state;
  std::string name;                     // of this agent among those that share the state directory
  Policy policy;                        // unless an operator set another one (records.h)
  Path base;                            // a copy of version 0 to begin from instead of an anchor; empty: none
  CatchUpOptions stage;                 // `version` is set by the loop
  uint64_t stage_bytes_per_second = 0;  // of the model, while engines serve; 0: no limit
  std::chrono::milliseconds poll{1'000};
};

// Run() belongs to one thread; the other functions may be called from any. Board, island, status and metrics must
// outlive it.
class Reconciler {
 public:
  // Opens the board when it is needed, again and again until it is there.
  using OpenBoard = std::function<Result<Board>()>;

  Reconciler(ReconcilerOptions options, OpenBoard open_board, Island& island, SharedStatus& status,
             AgentMetrics& metrics, const Clock& clock = Clock::System());

  // Passes, with `poll` between them, until Stop().
  void Run();
  void Stop();

  // One pass:
  //   1. read the policy and the run's head          a failure leaves the rest to what is here
  //   2. bring the canonical checkpoint to the version that is wanted, while the engines serve the old one
  //   3. ask the engines how they are, switch those that serve something else than the checkpoint
  // Several versions behind are one stage and one switch. The first failure; steps after it are made where they can be.
  Status Pass();

  // A pass begins at once, or right after the one that runs: the board has news, or somebody thinks so.
  void Wake();

  // The canonical checkpoint's bytes are not what its state says. The next passes build it anew from the board, until
  // it is done; meanwhile more of the same is not noted.
  void NoteDamage(const Error& error);
  bool damaged() const { return damaged_; }

  // What the board says about the side files of the version that the canonical checkpoint was at when a pass last
  // succeeded; null before. Another object for another version.
  std::shared_ptr<const VersionSideFiles> SideFiles() const;

  // From the next pass on, for all agents of this state directory, also after a restart.
  Status SetPolicy(const Policy& policy);
  // Back to what the command line says.
  Status ResetPolicy();
  Result<Policy> CurrentPolicy() const;

 private:
  // A base that is not version 0 of the run: it is not copied and digested again at every pass.
  struct RefusedBase {
    RunId run;
    Error error;
  };
  struct Target {
    Policy policy;
    Version version;
    Head head;
  };

  Result<Target> Look();
  Status Stage(const Target& target, UpdateView& update);
  Status StageFromBoard(const Target& target, UpdateView& update);
  Result<bool> StageFromUndoLog(const Target& target, const CheckpointState& present, UpdateView& update);
  // `patience`: with whoever writes to the checkpoint.
  Status SwitchEngines(UpdateView& update, std::chrono::milliseconds patience);
  void LearnSideFiles();
  void KeepSideFiles(VersionSideFiles files);
  void NoteFailure(AgentStage stage, const Error& error);
  void NoteUpdate(UpdateView update, double seconds);
  void ShowIsland();
  void ShowPhase(Phase phase);
  // What the canonical checkpoint is at; nullopt while there is none.
  Result<std::optional<CheckpointState>> Present() const;

  const ReconcilerOptions options_;
  const OpenBoard open_board_;
  Island& island_;
  SharedStatus& status_;
  AgentMetrics& metrics_;
  const Clock& clock_;
  std::optional<Board> board_;
  std::map<std::string, uint64_t> restarts_;  // of each engine, as far as the metrics know
  std::optional<RefusedBase> refused_base_;
  bool long_route_told_ = false;
  bool caught_up_ = false;       // by the last pass
  std::optional<Version> live_;  // version that the engines served after the last switch, for the metrics

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool wake_ = false, stop_ = false;                    // guarded by mutex_
  std::shared_ptr<const VersionSideFiles> side_files_;  // guarded by mutex_
  std::atomic<bool> damaged_ = false;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_RECONCILER_H_
