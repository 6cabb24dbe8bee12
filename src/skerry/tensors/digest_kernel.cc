#include "skerry/tensors/digest_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/tensors/digest_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 64-bit product modulo 2^64 from three 32-bit ones: most instruction sets have no 64-bit multiply.
template <class V>
HWY_INLINE V MultiplyLow(V x, uint64_t factor) {
  const hn::DFromV<V> d;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, hn::GetLane(x) * factor);
#else
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto low = hn::BitCast(d32, hn::Set(d, factor & 0xFFFFFFFF));
  const auto high = hn::BitCast(d32, hn::Set(d, factor >> 32));
  const auto x32 = hn::BitCast(d32, x);
  const auto x_high = hn::BitCast(d32, hn::ShiftRight<32>(x));
  const auto cross = hn::Add(hn::MulEven(x_high, low), hn::MulEven(x32, high));
  return hn::Add(hn::MulEven(x32, low), hn::ShiftLeft<32>(cross));
#endif
}

RunningDigest Sum(const uint8_t* bytes, size_t words, uint64_t first_word) {
  const hn::ScalableTag<uint64_t> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const V step = hn::Set(d, kDigestIndexStep * lanes);
  HWY_ALIGN uint64_t start[HWY_MAX_BYTES / sizeof(uint64_t)];
  for (size_t i = 0; i < lanes; ++i) start[i] = (first_word + i + 1) * kDigestIndexStep;
  V key = hn::Load(d, start);
  V sum_a = hn::Zero(d), sum_b = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= words; i += lanes) {
    V x = hn::Xor(hn::LoadU(d, reinterpret_cast<const uint64_t*>(bytes + 8 * i)), key);
    key = hn::Add(key, step);
    x = hn::Xor(x, hn::ShiftRight<32>(x));
    x = MultiplyLow(x, kDigestMultiplier1);
    x = hn::Xor(x, hn::ShiftRight<29>(x));
    sum_a = hn::Add(sum_a, x);
    const V y = MultiplyLow(x, kDigestMultiplier2);
    sum_b = hn::Add(sum_b, hn::Xor(y, hn::ShiftRight<32>(y)));
  }
  HWY_ALIGN uint64_t a[HWY_MAX_BYTES / sizeof(uint64_t)], b[HWY_MAX_BYTES / sizeof(uint64_t)];
  hn::Store(sum_a, d, a);
  hn::Store(sum_b, d, b);
  RunningDigest sum;
  for (size_t lane = 0; lane < lanes; ++lane) sum += RunningDigest{a[lane], b[lane]};
  for (; i < words; ++i) sum += MixWord(first_word + i, LoadLe<uint64_t>(reinterpret_cast<const std::byte*>(bytes) + 8 * i));
  return sum;
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace skerry {
HWY_EXPORT(Sum);

RunningDigest DigestWholeWordsVector(ByteSpan bytes, uint64_t first_word) {
  return HWY_DYNAMIC_DISPATCH(Sum)(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() / 8, first_word);
}

}  // namespace skerry
#endif  // HWY_ONCE
