// A vector mask as the bits of an integer. Included once for each instruction set.
// clang-format off
#if defined(SKERRY_BASE_MASK_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKERRY_BASE_MASK_BITS_INL_H_
#undef SKERRY_BASE_MASK_BITS_INL_H_
#else
#define SKERRY_BASE_MASK_BITS_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bit i is set where lane i is; at most 64 lanes. Reads back exactly the bytes that were stored: a wider load would
// wait for the store to reach the cache.
template <class D, class M>
HWY_INLINE uint64_t MaskBits(D d, M mask) {
  const size_t lanes = hn::Lanes(d);
  uint8_t bytes[8];
  hn::StoreMaskBits(d, mask, bytes);
  if (lanes == 64) {
    uint64_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    return bits;
  }
  if (lanes == 32) {
    uint32_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    return bits;
  }
  if (lanes == 16) {
    uint16_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    return bits;
  }
  return bytes[0] & ((1u << lanes) - 1);
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
