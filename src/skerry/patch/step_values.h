// New values from decoded steps and the old values beside them, and what they do to the digest.
#ifndef SKERRY_PATCH_STEP_VALUES_H_
#define SKERRY_PATCH_STEP_VALUES_H_

#include <span>
#include <vector>

#include "skerry/patch/block.h"
#include "skerry/patch/change_stream.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// The old bytes of a run of units of one tensor.
struct OldRun {
  ByteSpan bytes;
  uint64_t first_word = 0;  // index in the tensor of the run's first 64-bit word
};

inline uint64_t UnitsOf(std::span<const OldRun> runs, int unit) {
  uint64_t bytes = 0;
  for (const OldRun& run : runs) bytes += run.bytes.size();
  return bytes / static_cast<uint64_t>(unit);
}

// Fills `changes.values` for `changes.positions` (rising; over all runs, one after another) from as many `ranks` in the
// same order, and adds to moved[r] by how much run r's changes move its tensor's digest. kCorrupt when a step is wider
// than the dtype.
Status TakeSteps(DType dtype, std::span<const OldRun> runs, std::span<const uint32_t> ranks,
                 std::span<const uint64_t> escaped, BlockChanges& changes, std::span<RunningDigest> moved);

// The same for two 4-bit codes a byte: `changes.positions` holds numbers of codes (lower half of a byte first), and
// becomes the positions of the bytes that changed. `sign_magnitude`: what the codes are.
Status TakeCodeSteps(DType dtype, bool sign_magnitude, std::span<const OldRun> runs, std::span<const uint32_t> ranks,
                     std::span<const uint64_t> escaped, BlockChanges& changes, std::span<RunningDigest> moved);

}  // namespace skerry

#endif  // SKERRY_PATCH_STEP_VALUES_H_
