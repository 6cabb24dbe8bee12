// Decides which engine gets a request, if any: versions, engines in rotation, switches under way. No sockets, no
// threads, no clock: a switch is one call before or after a decision, and so are never in between.
#ifndef SKERRY_PROXY_ADMISSION_H_
#define SKERRY_PROXY_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "skerry/engine/engine.h"
#include "skerry/proxy/version_constraint.h"

namespace skerry {

// All by one thread.
class Admission {
 public:
  // Of an engine; the order is that of a switch.
  enum class Phase {
    kOut,      // not in rotation
    kOpen,     // takes requests
    kLeaving,  // a switch has begun: serves `live` still, but what would have to be waited for is not taken
    kPaused,   // between the versions
  };
  struct EngineState {
    std::string name, kind;
    Phase phase = Phase::kOut;
    bool in_rotation = false;            // as the island last said
    std::optional<VersionLabel> live;    // that it serves; after a failure nobody knows
    std::optional<VersionLabel> target;  // of the switch
    PausePolicy policy = PausePolicy::kInPlace;
    uint64_t running = 0, exact = 0;  // requests that it has, and those of them that are pinned to `live`
  };

  // The request is this engine's, and counted in `running`: Ended() when it is over.
  struct Admitted {
    size_t engine = 0;
    VersionLabel live;
  };
  // A switch is under way that leads to what is asked for, or is not in its way.
  struct Later {};
  struct Refused {
    bool not_ready = false;                   // the version is what is missing (409), else an engine (503)
    std::optional<VersionLabel> applied;      // the newest in rotation, or that was last
    std::optional<VersionLabel> leaving_for;  // where the version that is asked for is just being left
    bool worth_waiting = false;               // it may come by itself
  };
  using Decision = std::variant<Admitted, Later, Refused>;

  Admission(std::vector<std::pair<std::string, std::string>> names_and_kinds);

  Decision Decide(const VersionConstraint& constraint);
  void Ended(size_t engine, bool exact);

  // In rotation at a version, or not. Of no effect on the phase of an engine that is being switched, unless it goes
  // out.
  void SetIn(size_t engine, const VersionLabel& live);
  // `certain`: what it has running goes on, since it still serves what it served.
  void SetOut(size_t engine, bool certain);

  void BeginSwitch(size_t engine, const VersionLabel& target, PausePolicy policy);
  // What has to be waited for before the engine may be paused.
  uint64_t ToWaitFor(size_t engine) const;
  void Paused(size_t engine);
  // The engine serves the target; it still takes nothing.
  void Flip(size_t engine);
  // Takes requests again, if it is in rotation.
  void EndSwitch(size_t engine);

  const std::vector<EngineState>& engines() const { return engines_; }
  // The newest version that an engine in rotation serves.
  std::optional<VersionLabel> Newest() const;

 private:
  bool Serves(const EngineState& engine, const VersionConstraint& constraint) const;
  bool WillServe(const EngineState& engine, const VersionConstraint& constraint) const;

  std::vector<EngineState> engines_;
  std::optional<VersionLabel> last_;  // that some engine in rotation served
};

}  // namespace skerry

#endif  // SKERRY_PROXY_ADMISSION_H_
