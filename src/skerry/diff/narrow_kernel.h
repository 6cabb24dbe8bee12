// The vector paths of narrow.h, compiled once for each instruction set.
#ifndef SKERRY_DIFF_NARROW_KERNEL_H_
#define SKERRY_DIFF_NARROW_KERNEL_H_

#include <cstddef>

#include "skerry/tensors/dtype.h"

namespace skerry {

// Returns how many values it took; the rest, less than a vector, is the caller's.
size_t NarrowF32Vector(const std::byte* from, size_t count, DType to, std::byte* out);

}  // namespace skerry

#endif  // SKERRY_DIFF_NARROW_KERNEL_H_
