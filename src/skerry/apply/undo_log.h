// What in-place moves replaced, kept for two things: a way back, and the positions at which an older version differs.
#ifndef SKERRY_APPLY_UNDO_LOG_H_
#define SKERRY_APPLY_UNDO_LOG_H_

#include <string>
#include <vector>

#include "skerry/apply/state.h"
#include "skerry/base/file.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"

namespace skerry {

// How much of it is kept: the last `versions` moves (0: none is recorded), and of these the last that have at most
// `bytes` together (0: no bound; the last one stays even when it is larger).
struct UndoPolicy {
  uint64_t versions = 0;
  uint64_t bytes = 0;
};

// Which files a checkpoint has, as far as that can be told from its state.
struct VersionMark {
  VersionLabel label;
  Digest layout, model;

  static VersionMark Of(const CheckpointState& state) { return {state.label, state.layout, state.model}; }
  bool operator==(const VersionMark&) const = default;
};

// One move from one version to another. Its file holds the bytes that `from` has where the two differ, so that it leads
// from `to` back to `from`. What it says is about two versions, not about when: it stays true whatever comes later, and
// also when the move itself was not completed. A rollback is a move like another.
struct UndoStep {
  uint64_t number = 0;  // rising
  VersionMark from, to;
  Path file;
  uint64_t bytes = 0;  // of the file
};

// The folder `undo` of a state directory as it is at one moment: files `000000012.undo` in the order of the moves. Who
// changes it holds the state directory's lock; who reads it meanwhile may find a file gone.
class UndoLog {
 public:
  // Empty where there is none. A file that can't be understood is left out: it leads nowhere.
  static Result<UndoLog> Read(const Path& state_directory);

  const std::vector<UndoStep>& steps() const { return steps_; }  // oldest first
  uint64_t bytes() const;

  // The steps to undo one after the other to get from `present` to a version with that label, newest first; as few as
  // can be. Empty where no unbroken chain leads there, and where it is `present` itself.
  std::vector<UndoStep> WayBack(const VersionMark& present, const VersionLabel& target) const;
  // The same, but also along steps that can't be undone from there: what they touched is all that differs.
  std::vector<UndoStep> Between(const VersionMark& present, const VersionLabel& other) const;
  // The versions that WayBack finds a way to, from the nearest to the farthest, without `present`.
  std::vector<VersionMark> Reachable(const VersionMark& present) const;

  // Removes what no chain connects with `present`, then the oldest steps until the rest is within the policy.
  Status Prune(const VersionMark& present, const UndoPolicy& policy);
  Status Remove(const UndoStep& step);

 private:
  std::vector<UndoStep> Search(const VersionMark& present, const VersionLabel& target, bool both_ways) const;

  std::vector<UndoStep> steps_;
};

// <state directory>/undo
Path UndoDirectory(const Path& state_directory);

}  // namespace skerry

#endif  // SKERRY_APPLY_UNDO_LOG_H_
