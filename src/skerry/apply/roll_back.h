// Takes a checkpoint that CatchUp keeps back to an older version, without the board.
#ifndef SKERRY_APPLY_ROLL_BACK_H_
#define SKERRY_APPLY_ROLL_BACK_H_

#include "skerry/apply/canonical_checkpoint.h"

namespace skerry {

// CanonicalCheckpoint::RollBack of the checkpoint in `directory`, whose state is in its default place, under the lock
// that CatchUp takes too: who waits for the other finds his work done. kNotFound where the undo log does not lead
// there, or where there is no checkpoint with a state: go through the board (CatchUp with a version).
Result<ApplyReceipt> RollBackCheckpoint(const Path& directory, const VersionLabel& target,
                                        const CanonicalOptions& options, int threads, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_APPLY_ROLL_BACK_H_
