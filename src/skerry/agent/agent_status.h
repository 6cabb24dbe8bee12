// What an agent is doing and how it got there: the document of `/v1/skerry/status`.
#ifndef SKERRY_AGENT_AGENT_STATUS_H_
#define SKERRY_AGENT_AGENT_STATUS_H_

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "skerry/agent/island.h"
#include "skerry/agent/policy.h"

namespace skerry {

// What the agent's loop is in. `kWaiting`: nothing to do until the next look at the board.
enum class Phase { kStarting, kWaiting, kPlanning, kStaging, kSwitching };
std::string_view PhaseName(Phase phase);

// A failure stays until the loop has got past it, and is remembered after that.
struct FailureView {
  std::string time;   // of the last time
  std::string stage;  // look, stage, switch, scrub, …
  std::string cause;  // CodeName of the error
  std::string message;
  uint64_t count = 1;  // the same again and again
};

// The last version that came live, stage by stage in seconds.
struct UpdateView {
  std::string time;
  std::string label;
  std::optional<Version> from;  // none: from an anchor
  std::string how;              // "patches", "anchor", "undo", "engines" (the checkpoint was there already)
  uint64_t patches = 0, bytes_fetched = 0, changed = 0, elements = 0;
  uint64_t tensors = 0;  // that engines were told to touch, and no others; 0 where all had the whole model
  double plan = 0, fetch = 0, decode = 0, stage = 0;
  double probe = 0;  // until the engines had said how they are
  SwitchReceipt engines;
};

struct ScrubView {
  uint64_t rounds = 0, bytes = 0, mismatches = 0;
};

struct AgentStatus {
  std::string name, board, run, follow, started, state_directory;
  Phase phase = Phase::kStarting;
  bool stopping = false;
  std::optional<Version> head;        // of the run, when last seen
  std::optional<Version> checkpoint;  // that the canonical checkpoint is at
  std::string model;                  // its digest, hexadecimal
  std::optional<std::string> served;  // label that all engines in rotation serve
  std::optional<Version> version;     // of `served`, where it is of this run
  bool caught_up = false;             // once since the start: engines served what the policy wants
  bool degraded = false;              // the loop is stuck at `failure`, or an engine is out of rotation
  std::optional<FailureView> failure;
  std::vector<EngineView> engines;
  std::optional<UpdateView> last_update;
  uint64_t updates = 0, failures = 0;
  ScrubView scrub;

  // Ready: it has caught up once, and an engine is in rotation now.
  bool Ready() const;
  // Why not, in a sentence; empty where it is.
  std::string NotReadyBecause() const;
  // Versions that the engines are behind the head; nullopt where one of the two is unknown.
  std::optional<uint64_t> Behind() const;
};

// The document; docs/operations.md lists its fields. Holds no secret.
std::string ToJson(const AgentStatus& status);

// Shared by the loop, which writes, and the endpoints, which read.
class SharedStatus {
 public:
  AgentStatus Read() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  void Change(const std::function<void(AgentStatus&)>& change) {
    const std::lock_guard lock(mutex_);
    change(status_);
  }

 private:
  mutable std::mutex mutex_;
  AgentStatus status_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_AGENT_STATUS_H_
