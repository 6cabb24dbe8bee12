// Makes a new checkpoint directory out of a base and a patch.
#ifndef SKERRY_APPLY_REBUILD_H_
#define SKERRY_APPLY_REBUILD_H_

#include "skerry/apply/state.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

struct RebuildReceipt {
  uint64_t changed = 0;
  CheckpointState state;
  double verify_seconds = 0, copy_seconds = 0, apply_seconds = 0;
};

// The target of `patch` as the new directory `output`, whose files are byte for byte those that the patch was made
// from; `label` goes into its state.
//   1. verify the base, decode and verify the whole patch, look at the free space      crash or error: nothing written
//   2. copy the base's tensors to a directory beside `output`, under the target's layout   crash: that directory is
//   left
//   3. apply, make everything durable
//   4. rename the directory to `output`                                                 crash: all or nothing
// Handles every patch: other layouts and structural changes too. `base_digests` empty: they are computed by a full
// read. kConflict when `output` exists.
Result<RebuildReceipt> RebuildCheckpoint(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                         const Patch& patch, const Path& output, const VersionLabel& label,
                                         bool write_state, int threads, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_APPLY_REBUILD_H_
