#include "skerry/diff/fp8_block_kernel.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "skerry/diff/fp8_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/diff/fp8_block_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "skerry/base/mask_bits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::CappedTag<uint32_t, 16>;
using V32 = hn::Vec<U32>;
using F32 = hn::RebindToFloat<U32>;

// Vectors that are made before one looks whether any code differs.
constexpr size_t kGroupVectors = 4;
constexpr size_t kMostGroup = kGroupVectors * 16;  // elements

// T is the masters' bits: uint32_t of F32, uint16_t of BF16. As F32 bits.
template <typename T>
HWY_INLINE V32 LoadMasters(U32 d, const T* from) {
  if constexpr (sizeof(T) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Rebind<uint16_t, U32> d16;
    return hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(d16, from)));
  }
}

// What tells two codes apart, where they are widened: the sign in bit 31, the rest in the lowest bits.
constexpr uint32_t kCodeBits = 0x8000007F;

// As ToE4M3 rounds, for what is at most 464, widened so. Raises `largest`. Magnitudes are below 2^31 and compare as
// their bits do.
HWY_INLINE V32 Codes(U32 d, hn::Vec<F32> scaled, V32& largest) {
  const F32 floats;
  const hn::RebindToSigned<U32> signed_d;
  const V32 bits = hn::BitCast(d, scaled);
  const V32 size = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
  largest = hn::Max(largest, size);
  // The exponent's bias is 120 less; half a step more, or just below it where the code below is even.
  const V32 below = hn::Add(bits, hn::Set(d, 0x7FFFF - (120u << 23)));
  const V32 rounded = hn::IfThenElse(hn::TestBit(bits, hn::Set(d, 1u << 20)), hn::Add(below, hn::Set(d, 1)), below);
  const V32 normal = hn::BitCast(d, hn::ShiftRight<20>(hn::BitCast(signed_d, rounded)));
  // Adding 2^14 of the same sign leaves a value's units of 2^-9, the step of the subnormal ones, rounded, in the
  // fraction.
  const V32 magic = hn::Set(d, 0x46800000);
  const V32 signed_magic = hn::Or(hn::And(bits, hn::Set(d, 0x80000000)), magic);
  const V32 small = hn::Sub(hn::BitCast(d, hn::Add(scaled, hn::BitCast(floats, signed_magic))), magic);
  const auto is_small =
      hn::RebindMask(d, hn::Lt(hn::BitCast(signed_d, size), hn::Set(signed_d, 0x3C800000)));  // below 2^-6
  return hn::IfThenElse(is_small, small, normal);
}

// Elements that are compared together, with one scale. Appends to positions and made; returns how many there are then.
template <typename T>
HWY_INLINE size_t CompareGroup(U32 d, const T* HWY_RESTRICT masters, hn::Vec<F32> forward,
                               const int8_t* HWY_RESTRICT codes, size_t first, V32& largest, size_t count,
                               uint32_t* HWY_RESTRICT positions, uint8_t* HWY_RESTRICT made) {
  const F32 floats;
  const hn::RebindToSigned<U32> signed_d;
  const hn::Rebind<int8_t, U32> d8;
  const size_t lanes = hn::Lanes(d);
  const auto make = [&](size_t v) HWY_ATTR {
    return Codes(d, hn::Mul(hn::BitCast(floats, LoadMasters(d, masters + v * lanes)), forward), largest);
  };
  const auto differs = [&](size_t v, V32 code) HWY_ATTR {
    const V32 served = hn::BitCast(d, hn::PromoteTo(signed_d, hn::LoadU(d8, codes + v * lanes)));
    return hn::And(hn::Xor(code, served), hn::Set(d, kCodeBits));
  };
  const V32 a = make(0), b = make(1), c = make(2), e = make(3);
  const V32 not_a = differs(0, a), not_b = differs(1, b), not_c = differs(2, c), not_e = differs(3, e);
  const V32 zero = hn::Zero(d);
  if (hn::AllTrue(d, hn::Eq(hn::Or(hn::Or(not_a, not_b), hn::Or(not_c, not_e)), zero))) return count;
  const auto bits = [&](V32 difference) HWY_ATTR { return MaskBits(d, hn::Ne(difference, zero)); };
  HWY_ALIGN uint32_t values[kMostGroup];
  hn::Store(a, d, values);
  hn::Store(b, d, values + lanes);
  hn::Store(c, d, values + 2 * lanes);
  hn::Store(e, d, values + 3 * lanes);
  uint64_t word = bits(not_a) | bits(not_b) << lanes | bits(not_c) << 2 * lanes | bits(not_e) << 3 * lanes;
  for (; word != 0; word &= word - 1) {
    const size_t i = hwy::Num0BitsBelowLS1Bit_Nonzero64(word);
    positions[count] = static_cast<uint32_t>(first + i);
    made[count++] = static_cast<uint8_t>((values[i] & 0x7F) | (values[i] >> 24 & 0x80));
  }
  return count;
}

template <typename T>
Fp8RowCompared CompareRow(const void* masters_bytes, size_t columns, const float* forward, const void* codes_bytes,
                          uint32_t* positions, void* made_bytes) {
  const U32 d;
  const F32 floats;
  const auto* masters = static_cast<const T*>(masters_bytes);
  const auto* codes = static_cast<const int8_t*>(codes_bytes);
  auto* made = static_cast<uint8_t*>(made_bytes);
  const size_t group = kGroupVectors * hn::Lanes(d);
  V32 largest = hn::Zero(d);
  size_t count = 0;
  for (size_t at = 0; at < columns; ++forward) {
    const size_t end = std::min(at + kFp8BlockSide, columns);
    const auto scale = hn::Set(floats, *forward);
    for (; at + group <= end; at += group) {
      count = CompareGroup(d, masters + at, scale, codes + at, at, largest, count, positions, made);
    }
    if (at == end) continue;
    // The row's end, with zeros behind it, whose code is zero.
    T last_masters[kMostGroup] = {};
    int8_t last_codes[kMostGroup] = {};
    // Masters may be unaligned; to memcpy, a pointer to T says that they are not.
    std::memcpy(last_masters, static_cast<const std::byte*>(masters_bytes) + at * sizeof(T), (end - at) * sizeof(T));
    std::memcpy(last_codes, codes + at, end - at);
    count = CompareGroup(d, last_masters, scale, last_codes, at, largest, count, positions, made);
    at = end;
  }
  HWY_ALIGN uint32_t lanes[hn::MaxLanes(d)];
  hn::Store(largest, d, lanes);
  return {.changed = count, .largest = *std::max_element(lanes, lanes + hn::Lanes(d))};
}

template <typename T>
void RaiseLargest(const void* masters_bytes, size_t columns, void* largest_bytes) {
  const hn::CappedTag<T, kFp8LargestBytes / sizeof(T)> d;
  constexpr T kSize = static_cast<T>(-1) >> 1;
  const auto* masters = static_cast<const T*>(masters_bytes);
  auto* largest = static_cast<T*>(largest_bytes);
  const size_t lanes = hn::Lanes(d);
  for (size_t at = 0; at < columns; largest += kFp8LargestBytes / sizeof(T)) {
    const size_t end = std::min(at + kFp8BlockSide, columns);
    auto most = hn::LoadU(d, largest);
    for (; at + lanes <= end; at += lanes) {
      most = hn::Max(most, hn::And(hn::LoadU(d, masters + at), hn::Set(d, kSize)));
    }
    hn::StoreU(most, d, largest);
    for (; at < end; ++at) {
      T bits;
      std::memcpy(&bits, static_cast<const std::byte*>(masters_bytes) + at * sizeof(T), sizeof bits);
      *largest = std::max(*largest, static_cast<T>(bits & kSize));
    }
  }
}

Fp8RowCompared Compare(const void* masters, bool bf16, size_t columns, const float* forward, const void* codes,
                       uint32_t* positions, void* made) {
  return bf16 ? CompareRow<uint16_t>(masters, columns, forward, codes, positions, made)
              : CompareRow<uint32_t>(masters, columns, forward, codes, positions, made);
}

void Raise(const void* masters, bool bf16, size_t columns, void* largest) {
  return bf16 ? RaiseLargest<uint16_t>(masters, columns, largest) : RaiseLargest<uint32_t>(masters, columns, largest);
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace skerry {

HWY_EXPORT(Compare);
HWY_EXPORT(Raise);

Fp8RowCompared CompareFp8RowVector(const std::byte* masters, DType dtype, size_t columns, const float* forward,
                                   const std::byte* codes, uint32_t* positions, std::byte* made) {
  return HWY_DYNAMIC_DISPATCH(Compare)(masters, dtype == DType::kBF16, columns, forward, codes, positions, made);
}

void RaiseFp8LargestVector(const std::byte* masters, DType dtype, size_t columns, std::byte* largest) {
  HWY_DYNAMIC_DISPATCH(Raise)(masters, dtype == DType::kBF16, columns, largest);
}

}  // namespace skerry
#endif  // HWY_ONCE
