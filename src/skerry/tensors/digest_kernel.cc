#include "skerry/tensors/digest_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/tensors/digest_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "skerry/tensors/digest_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

RunningDigest Sum(const uint8_t* bytes, size_t words, uint64_t first_word) {
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  DigestSum<decltype(d)> digest(d, first_word);
  size_t i = 0;
  for (; i + lanes <= words; i += lanes) digest.Add(hn::LoadU(d, reinterpret_cast<const uint64_t*>(bytes + 8 * i)));
  RunningDigest sum = digest.Total(d);
  for (; i < words; ++i)
    sum += MixWord(first_word + i, LoadLe<uint64_t>(reinterpret_cast<const std::byte*>(bytes) + 8 * i));
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
