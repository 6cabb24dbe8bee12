// The bytes of units, apart by their place in the unit: what is predictable of a weight, its exponent, lies together
// then, and what is not, too.
#ifndef SKERRY_PATCH_BYTE_PLANES_H_
#define SKERRY_PATCH_BYTE_PLANES_H_

#include <array>

#include "skerry/base/bytes.h"
#include "skerry/tensors/dtype.h"

namespace skerry {

inline constexpr size_t kMaxPlanes = 8;

// Units of these dtypes are rotated left by one bit first: the sign goes to the lowest place, so that bfloat16 and
// float32 have their exponent and nothing else in the highest byte.
constexpr bool PlanesAreRotated(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 || dtype == DType::kF64;
}

// Writes byte p of every unit to planes[p * units …].
void SplitPlanes(ByteSpan values, DType dtype, std::byte* planes);

// The other way round: planes[p] has a byte for each unit of `values`.
void JoinPlanes(const std::array<const std::byte*, kMaxPlanes>& planes, DType dtype, MutableByteSpan values);

}  // namespace skerry

#endif  // SKERRY_PATCH_BYTE_PLANES_H_
