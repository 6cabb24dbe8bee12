// An engine that a command of the user's drives. `/bin/sh -c COMMAND` runs once for each phase, with
//
//   SKERRY_PHASE       prepare, pause, load, reset_cache, verify, resume
//   SKERRY_PAUSE       in phase pause: in-place, drain or abort
//   SKERRY_RUN, SKERRY_VERSION, SKERRY_LABEL, SKERRY_MODEL, SKERRY_CHECKPOINT
//                      the update's (run "grpo-1", 7, "grpo-1@7", SHA-256, directory); empty before the first prepare
//
// Exit code 0: done (a phase that means nothing to the command is done at once). In phase load it means: switched. A
// command that takes longer than the phase may is killed with all of its process group. What the engine serves is
// remembered from the last load and not asked for, see told_engine.h.
#ifndef SKERRY_ENGINE_EXEC_ENGINE_H_
#define SKERRY_ENGINE_EXEC_ENGINE_H_

#include "skerry/engine/told_engine.h"

namespace skerry {

class ExecEngine : public ToldEngine {
 public:
  // The command is shown in messages by its first word alone: its arguments may be secrets.
  ExecEngine(const std::string& command, const EngineOptions& options);

 private:
  Status Tell(const Phase& phase) override;

  const std::string command_;
};

}  // namespace skerry

#endif  // SKERRY_ENGINE_EXEC_ENGINE_H_
