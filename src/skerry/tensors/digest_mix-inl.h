// The vector form of MixWord, for kernels that digest what they read. Included once for each instruction set.
// clang-format off
#if defined(SKERRY_TENSORS_DIGEST_MIX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKERRY_TENSORS_DIGEST_MIX_INL_H_
#undef SKERRY_TENSORS_DIGEST_MIX_INL_H_
#else
#define SKERRY_TENSORS_DIGEST_MIX_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "skerry/tensors/running_digest.h"

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x * factor modulo 2^64, factor < 2^32, from 32-bit products: most instruction sets have no 64-bit multiply.
// `high` is x >> 32.
template <class V>
HWY_INLINE V MultiplyLow(V x, V high, uint64_t factor) {
  const hn::DFromV<V> d;
#if HWY_TARGET == HWY_SCALAR
  (void)high;
  return hn::Set(d, hn::GetLane(x) * factor);
#else
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto f = hn::BitCast(d32, hn::Set(d, factor));
  return hn::Add(hn::MulEven(hn::BitCast(d32, x), f), hn::ShiftLeft<32>(hn::MulEven(hn::BitCast(d32, high), f)));
#endif
}

// Sums the mixes of consecutive words, a vector of them at a time.
template <class D>
class DigestSum {
 public:
  using V = hn::Vec<D>;

  DigestSum(D d, uint64_t first_word) : step_(hn::Set(d, kDigestIndexStep * hn::Lanes(d))) {
    HWY_ALIGN uint64_t start[HWY_MAX_BYTES / sizeof(uint64_t)];
    for (size_t i = 0; i < hn::Lanes(d); ++i) start[i] = (first_word + i + 1) * kDigestIndexStep;
    key_ = hn::Load(d, start);
    a_ = b_ = hn::Zero(d);
  }

  HWY_INLINE void Add(V words) {
    V x = hn::Xor(words, key_);
    key_ = hn::Add(key_, step_);
    const V high = hn::ShiftRight<32>(x);
    x = MultiplyLow(hn::Xor(x, high), high, kDigestMultiplier1);
    x = hn::Xor(x, hn::ShiftRight<29>(x));
    a_ = hn::Add(a_, x);
    const V y = MultiplyLow(x, hn::ShiftRight<32>(x), kDigestMultiplier2);
    b_ = hn::Add(b_, hn::Xor(y, hn::ShiftRight<32>(y)));
  }

  RunningDigest Total(D d) const {
    HWY_ALIGN uint64_t a[HWY_MAX_BYTES / sizeof(uint64_t)], b[HWY_MAX_BYTES / sizeof(uint64_t)];
    hn::Store(a_, d, a);
    hn::Store(b_, d, b);
    RunningDigest sum;
    for (size_t lane = 0; lane < hn::Lanes(d); ++lane) sum += RunningDigest{a[lane], b[lane]};
    return sum;
  }

 private:
  V key_, step_, a_, b_;
};

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
