// Which vector instruction set the kernels use. Highway picks the best that the processor has; the environment variable
// SKERRY_SIMD (scalar, ssse3, sse4, avx2, avx3) caps it, for tests and for hosts with a faulty unit.
#ifndef SKERRY_BASE_SIMD_H_
#define SKERRY_BASE_SIMD_H_

#include <string_view>

#include "skerry/base/result.h"

namespace skerry {

// True when kernels must use their scalar specification.
bool SimdIsScalar();

// Caps the instruction set from now on; "" or "best" lifts the cap. kInvalid names what is understood. Call it before
// other threads run kernels.
Status SetSimd(std::string_view name);

// The set in use: "scalar", "AVX2", …
std::string_view SimdName();

}  // namespace skerry

#endif  // SKERRY_BASE_SIMD_H_
