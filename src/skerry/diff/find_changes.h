// What changed between two buffers: the compare kernel.
#ifndef SKERRY_DIFF_FIND_CHANGES_H_
#define SKERRY_DIFF_FIND_CHANGES_H_

#include <cstddef>
#include <cstdint>

#include "skerry/tensors/running_digest.h"

namespace skerry {

// Writes the indices, rising, of the storage units whose bits differ between `before` and `after` and returns how many
// there are. `unit` is 1, 2, 4 or 8 bytes; the buffers hold `units` units each, at any alignment; `positions` has room
// for `units` + 64 entries (the kernel may scribble on the slack). Bits only: NaNs and signed zeros are like all
// others.
size_t FindChanges(const std::byte* before, const std::byte* after, size_t units, int unit, uint32_t* positions);

// The specification of FindChanges.
size_t FindChangesScalar(const std::byte* before, const std::byte* after, size_t units, int unit, uint32_t* positions);

// FindChanges and, in the same read, the running digest of `before`, whose first byte is byte 8 * first_word of its
// tensor.
size_t FindChangesAndDigest(const std::byte* before, const std::byte* after, size_t units, int unit,
                            uint64_t first_word, uint32_t* positions, RunningDigest& digest);

// Only how many: the plain compare-scan that benches use as their yardstick.
size_t CountChanges(const std::byte* before, const std::byte* after, size_t units, int unit);

}  // namespace skerry

#endif  // SKERRY_DIFF_FIND_CHANGES_H_
