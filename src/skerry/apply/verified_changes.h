// Decodes a whole patch against a base and proves, before anything is written, that the result is the target.
#ifndef SKERRY_APPLY_VERIFIED_CHANGES_H_
#define SKERRY_APPLY_VERIFIED_CHANGES_H_

#include <functional>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/checkpoint.h"
#include "skerry/tensors/running_digest.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// The base's tensor that has the name, dtype and shape of `tensor`, or -1.
int64_t BaseOf(const Layout& base, const LayoutTensor& tensor);

// Decodes a block against the base, whose ordinals `base_of` gives for the target's (-1: it has not got the tensor).
Result<std::vector<RunChanges>> DecodeBlock(const Patch& patch, const PlacedBlock& block, const TensorSource& base,
                                            std::span<const int64_t> base_of, const Layout& target);

// The layout that the patch leads to: its own where it carries one, else the base's.
Result<Layout> TargetLayout(const Patch& patch, const Layout& base);

// A base with the same tensors in other files is fine as long as the patch says nothing about files; kMismatch
// otherwise.
Status CheckPlacement(const Patch& patch, const Layout& base);

// Refuses a patch after which a file would also have to be a folder.
Status CheckTargetPaths(const Patch& patch, const Checkpoint& base, const Layout& target);

// Refuses (kMismatch) a base whose tensors or model digest are not what the patch was made for, naming both.
Status CheckBase(const Patch& patch, const Layout& base, std::span<const RunningDigest> base_digests);

// Decodes all blocks on `threads` threads and hands their changes over in the patch's order (one at a time). The base
// has the target's tensors. Nothing but the blocks' own checksums is checked.
Status DecodeChanges(const Patch& patch, const TensorSource& base, const Layout& target, int threads,
                     Progress& progress, const std::function<Status(RunChanges)>& take);

// As DecodeChanges, for any base. Returns
// the target's running digests after checking that they give the patch's target model digest; kCorrupt otherwise: then
// the patch is damaged, or the base's bytes are not what its digests say. What `take` was given must not be used then.
Result<std::vector<RunningDigest>> DecodeVerified(const Patch& patch, const TensorSource& base,
                                                  std::span<const RunningDigest> base_digests, const Layout& target,
                                                  int threads, Progress& progress,
                                                  const std::function<Status(RunChanges)>& take);

}  // namespace skerry

#endif  // SKERRY_APPLY_VERIFIED_CHANGES_H_
