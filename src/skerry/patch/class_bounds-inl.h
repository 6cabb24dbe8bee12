// What the kernels of class_scan.h share: thresholds as vectors compare them, and groups of elements. Included once for
// each instruction set.
// clang-format off
#if defined(SKERRY_PATCH_CLASS_BOUNDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKERRY_PATCH_CLASS_BOUNDS_INL_H_
#undef SKERRY_PATCH_CLASS_BOUNDS_INL_H_
#else
#define SKERRY_PATCH_CLASS_BOUNDS_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "skerry/base/mask_bits-inl.h"
#include "skerry/patch/class_scan.h"

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kGroup = kGroupElements;

// Magnitudes are compared as signed integers, which every instruction set can do: where a magnitude uses all bits, the
// upper one is flipped. Elements of class c and higher are greater than above[c], those of class c at least lowest[c].
template <typename T>
struct Bounds {
  explicit Bounds(const MagnitudeClasses& classes) : mask(static_cast<T>(classes.view().mask)) {
    using U = std::make_unsigned_t<T>;
    if (mask < 0) flip = static_cast<T>(U{1} << (8 * sizeof(T) - 1));
    // above[0] counts no class, and nothing is above the last bound.
    std::fill(std::begin(above), std::end(above), std::numeric_limits<T>::max());
    std::fill(std::begin(lowest), std::end(lowest), std::numeric_limits<T>::min());
    for (int c = 1; c < classes.count(); ++c) {
      above[c] = static_cast<T>(static_cast<T>(classes.lowest(c) - 1) ^ flip);
      lowest[c] = static_cast<T>(static_cast<T>(classes.lowest(c)) ^ flip);
    }
  }
  HWY_INLINE int ClassOf(T bits) const {
    const T magnitude = static_cast<T>((bits & mask) ^ flip);
    const hn::CappedTag<T, kMaxClasses> d;
    int c = 0;
    for (size_t i = 0; i < kMaxClasses; i += hn::Lanes(d)) {
      c += std::popcount(MaskBits(d, hn::Gt(hn::Set(d, magnitude), hn::LoadU(d, above + i))));
    }
    return c;
  }

  T mask, flip = 0;
  T above[kMaxClasses + 1];
  T lowest[kMaxClasses];
};

// Two codes a byte, spread to a byte each.
HWY_INLINE void SpreadCodes(const uint8_t* packed, size_t codes, int8_t* out) {
  for (size_t i = 0; i < codes; ++i) out[i] = static_cast<int8_t>(packed[i / 2] >> (i % 2 * 4) & 0xF);
}

template <typename T>
HWY_INLINE const T* GroupAt(const std::byte* data, size_t group, size_t elements, bool codes, T* buffer) {
  const size_t left = elements - group * kGroup;
  if constexpr (sizeof(T) == 1) {
    if (codes) {
      if (left < kGroup) std::memset(buffer, 0, kGroup);
      SpreadCodes(reinterpret_cast<const uint8_t*>(data) + group * kGroup / 2, std::min(left, kGroup), buffer);
      return buffer;
    }
  }
  const T* at = reinterpret_cast<const T*>(data) + group * kGroup;
  if (left >= kGroup) return at;
  std::memset(buffer, 0, kGroup * sizeof(T));
  std::memcpy(buffer, reinterpret_cast<const std::byte*>(at), left * sizeof(T));
  return buffer;
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
