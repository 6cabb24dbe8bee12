// Casts a trainer's F32 masters to the dtype that engines serve.
#ifndef SKERRY_DIFF_NARROW_H_
#define SKERRY_DIFF_NARROW_H_

#include <cstddef>

#include "skerry/tensors/dtype.h"

namespace skerry {

// Rounds `count` F32 values, at any alignment, to kBF16 or kF16: to the nearest, ties to even (IEEE 754-2019, 4.3.1),
// as PyTorch, NumPy and the processors' own conversions do. Overflow gives an infinity. A NaN becomes a quiet one of
// the same sign and leading payload bits; PyTorch does not say which one it makes. The result does not depend on the
// instruction set.
void NarrowF32(const std::byte* from, size_t count, DType to, std::byte* out);

// The specification of NarrowF32.
void NarrowF32Scalar(const std::byte* from, size_t count, DType to, std::byte* out);

}  // namespace skerry

#endif  // SKERRY_DIFF_NARROW_H_
