#include "skerry/diff/narrow_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/diff/narrow_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::ScalableTag<uint32_t>;
using V32 = hn::Vec<U32>;

HWY_INLINE V32 Sizes(U32 d, V32 bits) { return hn::And(bits, hn::Set(d, 0x7FFFFFFF)); }

// Greater for values below 2^31: the signed comparison, which every instruction set has.
HWY_INLINE hn::Mask<U32> Greater(U32 d, V32 a, V32 b) {
  const hn::RebindToSigned<U32> signed_d;
  return hn::RebindMask(d, hn::Gt(hn::BitCast(signed_d, a), hn::BitCast(signed_d, b)));
}

HWY_INLINE V32 ToBF16(U32 d, V32 bits) {
  const V32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const V32 rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7FFF)), odd));
  const V32 quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40));
  return hn::IfThenElse(Greater(d, Sizes(d, bits), hn::Set(d, 0x7F800000)), quiet, rounded);
}

HWY_INLINE V32 ToF16(U32 d, V32 bits) {
  const hn::RebindToFloat<U32> floats;
  const V32 size = Sizes(d, bits);
  const V32 sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
  const V32 odd = hn::And(hn::ShiftRight<13>(size), hn::Set(d, 1));
  const V32 normal = hn::ShiftRight<13>(hn::Add(hn::Sub(size, hn::Set(d, (112u << 23) - 0xFFF)), odd));
  // Adding one half leaves a value's units of 2^-24, rounded, in the fraction.
  const V32 half = hn::Set(d, 0x3F000000);
  const V32 small = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(floats, size), hn::BitCast(floats, half))), half);
  const V32 nan = hn::Or(hn::Set(d, 0x7E00), hn::And(hn::ShiftRight<13>(size), hn::Set(d, 0x3FF)));
  V32 out = hn::IfThenElse(Greater(d, hn::Set(d, 0x38800000), size), small, normal);
  out = hn::IfThenElse(Greater(d, size, hn::Set(d, 0x477FFFFF)), hn::Set(d, 0x7C00), out);
  out = hn::IfThenElse(Greater(d, size, hn::Set(d, 0x7F800000)), nan, out);
  return hn::Or(sign, out);
}

size_t Narrow(const void* from, size_t count, bool to_bf16, void* to) {
  const U32 d;
  const hn::RebindToSigned<U32> signed_d;
  const hn::Rebind<uint16_t, U32> d16;
  const size_t lanes = hn::Lanes(d);
  const auto* in = static_cast<const uint32_t*>(from);
  auto* out = static_cast<uint16_t*>(to);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V32 bits = hn::LoadU(d, in + i);
    const V32 narrow = to_bf16 ? ToBF16(d, bits) : ToF16(d, bits);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(signed_d, narrow)), d16, out + i);
  }
  return i;
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace skerry {

HWY_EXPORT(Narrow);

size_t NarrowF32Vector(const std::byte* from, size_t count, DType to, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(Narrow)(from, count, to == DType::kBF16, out);
}

}  // namespace skerry
#endif  // HWY_ONCE
