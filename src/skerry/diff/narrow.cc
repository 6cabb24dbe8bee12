#include "skerry/diff/narrow.h"

#include <cstdint>

#include "skerry/base/bytes.h"
#include "skerry/base/simd.h"
#include "skerry/diff/narrow_kernel.h"

namespace skerry {
namespace {

constexpr uint32_t kInfinity = 0x7F800000;

uint16_t ToBF16(uint32_t bits) {
  if ((bits & 0x7FFFFFFF) > kInfinity) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t ToF16(uint32_t bits) {
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr uint32_t kBeyond = 0x47800000;          // 2^16
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  if (size > kInfinity) return static_cast<uint16_t>(sign | 0x7E00 | (size >> 13 & 0x3FF));
  if (size >= kBeyond) return static_cast<uint16_t>(sign | 0x7C00);
  if (size >= kSmallestNormal) {
    // The exponent's bias is 112 less; a carry out of the fraction moves it up, to infinity at the end.
    return static_cast<uint16_t>(sign | (size - (112u << 23) + 0xFFF + (size >> 13 & 1)) >> 13);
  }
  // In units of 2^-24, the step of the subnormal ones.
  const uint32_t exponent = size >> 23;
  if (exponent < 102) return static_cast<uint16_t>(sign);  // less than half a unit
  const uint32_t fraction = (size & 0x7FFFFF) | 0x800000, shift = 126 - exponent;
  const uint32_t whole = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  const bool up = rest > half || (rest == half && (whole & 1) != 0);
  return static_cast<uint16_t>(sign | (whole + up));
}

}  // namespace

void NarrowF32Scalar(const std::byte* from, size_t count, DType to, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    const auto bits = LoadLe<uint32_t>(from + 4 * i);
    StoreLe(out + 2 * i, to == DType::kBF16 ? ToBF16(bits) : ToF16(bits));
  }
}

void NarrowF32(const std::byte* from, size_t count, DType to, std::byte* out) {
  const size_t done = SimdIsScalar() ? 0 : NarrowF32Vector(from, count, to, out);
  NarrowF32Scalar(from + 4 * done, count - done, to, out + 2 * done);
}

}  // namespace skerry
