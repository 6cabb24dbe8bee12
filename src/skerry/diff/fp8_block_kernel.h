// The vector paths of fp8_block.h, compiled once for each instruction set.
#ifndef SKERRY_DIFF_FP8_BLOCK_KERNEL_H_
#define SKERRY_DIFF_FP8_BLOCK_KERNEL_H_

#include <cstddef>
#include <cstdint>

#include "skerry/tensors/dtype.h"

namespace skerry {

// For each block that a row of masters (kF32 or kBF16) passes, this many bytes of magnitudes in the masters' dtype: the
// largest of a block so far is the largest among them.
inline constexpr size_t kFp8LargestBytes = 64;

// Raises `largest` by one row of `columns` masters. Magnitudes are compared as integers: infinities and NaNs are above
// all numbers.
void RaiseFp8LargestVector(const std::byte* masters, DType dtype, size_t columns, std::byte* largest);

struct Fp8RowCompared {
  size_t changed;
  uint32_t largest;  // |master * forward|, as F32 bits
};

// Makes the codes of one row, with a `forward` for each 128 columns, and writes places and values of those that differ
// from `codes`. Where `largest` is above 464, or no number, they mean nothing. `positions` and `made` have room for
// `columns`.
Fp8RowCompared CompareFp8RowVector(const std::byte* masters, DType dtype, size_t columns, const float* forward,
                                   const std::byte* codes, uint32_t* positions, std::byte* made);

}  // namespace skerry

#endif  // SKERRY_DIFF_FP8_BLOCK_KERNEL_H_
