// Opening a checkpoint that an in-place apply may have left unfinished.
#ifndef SKERRY_APPLY_SETTLED_CHECKPOINT_H_
#define SKERRY_APPLY_SETTLED_CHECKPOINT_H_

#include "skerry/apply/journal.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// Checkpoint::Open for readers: kUnavailable when a committed journal says that an apply was interrupted, since its
// files are then part old, part new.
inline Result<Checkpoint> OpenSettledCheckpoint(const Path& directory) {
  if (JournalExists(DefaultStateDirectory(directory))) {
    return Fail(
        Code::kUnavailable,
        "{}: an apply was interrupted and is not finished; run it again (skerry pull, or skerry apply --in-place)",
        directory.string());
  }
  return Checkpoint::Open(directory);
}

}  // namespace skerry

#endif  // SKERRY_APPLY_SETTLED_CHECKPOINT_H_
