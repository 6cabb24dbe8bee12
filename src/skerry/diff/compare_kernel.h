// The vector paths of find_changes.h, compiled once for each instruction set.
#ifndef SKERRY_DIFF_COMPARE_KERNEL_H_
#define SKERRY_DIFF_COMPARE_KERNEL_H_

#include <cstddef>
#include <cstdint>

#include "skerry/tensors/running_digest.h"

namespace skerry {

size_t FindChangesVector(const std::byte* before, const std::byte* after, size_t units, int unit, uint32_t* positions);
size_t FindChangesAndDigestVector(const std::byte* before, const std::byte* after, size_t units, int unit,
                                  uint64_t first_word, uint32_t* positions, RunningDigest& digest);
size_t CountChangesVector(const std::byte* before, const std::byte* after, size_t units, int unit);

}  // namespace skerry

#endif  // SKERRY_DIFF_COMPARE_KERNEL_H_
