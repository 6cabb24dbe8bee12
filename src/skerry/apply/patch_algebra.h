// Patches made from patches: several in a row as one, and one turned round.
#ifndef SKERRY_APPLY_PATCH_ALGEBRA_H_
#define SKERRY_APPLY_PATCH_ALGEBRA_H_

#include <span>
#include <vector>

#include "skerry/patch/encoder.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// The patch from `base` to what `patches`, applied one after another, make of it: the last bits win, and what returns
// to its old bits drops out. Reads of the base, and decodes, only the cells that some patch touches, unless a patch is
// structural. `base_digests` are the base's running digests (empty: they are computed). Every patch is verified on the
// way: kMismatch when one does not follow the other, kCorrupt when one does not lead where it says.
Result<EncodeReceipt> SquashPatches(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                    std::span<const Patch* const> patches, const EncodeOptions& options, ByteSink& sink,
                                    Progress& progress);

// The patch that leads from what `patch` makes of `base` back to `base`.
Result<EncodeReceipt> InvertPatch(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                  const Patch& patch, const EncodeOptions& options, ByteSink& sink, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_APPLY_PATCH_ALGEBRA_H_
