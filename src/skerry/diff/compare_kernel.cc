#include "skerry/diff/compare_kernel.h"

#include <cstring>

#include "skerry/diff/find_changes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/diff/compare_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "skerry/base/mask_bits-inl.h"
#include "skerry/tensors/digest_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kPrefetchBytes = 2048;
constexpr size_t kGroup = 64;  // units a step: one bit each in a 64-bit word

// Bit i is set where unit i of the group differs.
template <typename T>
HWY_INLINE uint64_t DifferenceBits(const T* HWY_RESTRICT before, const T* HWY_RESTRICT after) {
  const hn::CappedTag<T, kGroup> d;
  const size_t lanes = hn::Lanes(d);
  uint64_t word = 0;
  for (size_t i = 0; i < kGroup; i += lanes) {
    word |= MaskBits(d, hn::Ne(hn::LoadU(d, before + i), hn::LoadU(d, after + i))) << i;
  }
  return word;
}

// Most groups are equal: find that out without making a mask.
template <typename T>
HWY_INLINE bool Equal(const T* HWY_RESTRICT before, const T* HWY_RESTRICT after) {
  const hn::CappedTag<T, kGroup> d;
  const size_t lanes = hn::Lanes(d);
  auto difference = hn::Xor(hn::LoadU(d, before), hn::LoadU(d, after));
  for (size_t i = lanes; i < kGroup; i += lanes) {
    difference = hn::Or(difference, hn::Xor(hn::LoadU(d, before + i), hn::LoadU(d, after + i)));
  }
  return hn::AllTrue(d, hn::Eq(difference, hn::Zero(d)));
}

template <typename T>
size_t FindTyped(const void* before_bytes, const void* after_bytes, size_t units, uint32_t* HWY_RESTRICT positions) {
  const auto* before = static_cast<const T*>(before_bytes);
  const auto* after = static_cast<const T*>(after_bytes);
  size_t count = 0, i = 0;
  for (; i + kGroup <= units; i += kGroup) {
    if (Equal(before + i, after + i)) continue;
    for (uint64_t word = DifferenceBits(before + i, after + i); word != 0; word &= word - 1) {
      positions[count++] = static_cast<uint32_t>(i + hwy::Num0BitsBelowLS1Bit_Nonzero64(word));
    }
  }
  for (; i < units; ++i) {
    if (std::memcmp(before + i, after + i, sizeof(T)) != 0) positions[count++] = static_cast<uint32_t>(i);
  }
  return count;
}

// The same, digesting the old bytes on the way: the loads are shared, and the mixing hides behind the memory's latency.
template <typename T>
size_t FindDigestTyped(const void* before_bytes, const void* after_bytes, size_t units, uint64_t first_word,
                       uint32_t* HWY_RESTRICT positions, RunningDigest& digest) {
  const auto* before = static_cast<const T*>(before_bytes);
  const auto* after = static_cast<const T*>(after_bytes);
  const hn::ScalableTag<uint64_t> d64;
  const size_t lanes = hn::Lanes(d64);
  constexpr size_t kWords = kGroup * sizeof(T) / 8;  // a group
  const size_t vectors = kWords / lanes;
  DigestSum<decltype(d64)> sum(d64, first_word);
  size_t count = 0, i = 0;
  for (; vectors > 0 && i + kGroup <= units; i += kGroup) {
    const auto* old_words = reinterpret_cast<const uint64_t*>(before + i);
    const auto* new_words = reinterpret_cast<const uint64_t*>(after + i);
    // The hardware's prefetchers stop at page ends; two streams with work between them feel that.
    for (size_t line = kPrefetchBytes; line < kPrefetchBytes + kGroup * sizeof(T); line += 64) {
      hwy::Prefetch(reinterpret_cast<const uint8_t*>(old_words) + line);
      hwy::Prefetch(reinterpret_cast<const uint8_t*>(new_words) + line);
    }
    auto difference = hn::Zero(d64);
    for (size_t v = 0; v < vectors; ++v) {
      const auto old_vector = hn::LoadU(d64, old_words + v * lanes);
      difference = hn::Or(difference, hn::Xor(old_vector, hn::LoadU(d64, new_words + v * lanes)));
      sum.Add(old_vector);
    }
    if (hn::AllTrue(d64, hn::Eq(difference, hn::Zero(d64)))) continue;
    for (uint64_t word = DifferenceBits(before + i, after + i); word != 0; word &= word - 1) {
      positions[count++] = static_cast<uint32_t>(i + hwy::Num0BitsBelowLS1Bit_Nonzero64(word));
    }
  }
  digest = sum.Total(d64);
  digest += DigestWords({reinterpret_cast<const std::byte*>(before + i), (units - i) * sizeof(T)},
                        first_word + i * sizeof(T) / 8);
  for (; i < units; ++i) {
    if (std::memcmp(before + i, after + i, sizeof(T)) != 0) positions[count++] = static_cast<uint32_t>(i);
  }
  return count;
}

template <typename T>
size_t CountTyped(const void* before_bytes, const void* after_bytes, size_t units) {
  const auto* before = static_cast<const T*>(before_bytes);
  const auto* after = static_cast<const T*>(after_bytes);
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  for (; i + 4 * lanes <= units; i += 4 * lanes) {
    for (size_t j = i; j < i + 4 * lanes; j += lanes) {
      count += hn::CountTrue(d, hn::Ne(hn::LoadU(d, before + j), hn::LoadU(d, after + j)));
    }
  }
  for (; i < units; ++i) count += std::memcmp(before + i, after + i, sizeof(T)) != 0;
  return count;
}

size_t Find(const void* before, const void* after, size_t units, int unit, uint32_t* positions) {
  switch (unit) {
    case 1: return FindTyped<uint8_t>(before, after, units, positions);
    case 2: return FindTyped<uint16_t>(before, after, units, positions);
    case 4: return FindTyped<uint32_t>(before, after, units, positions);
    default: return FindTyped<uint64_t>(before, after, units, positions);
  }
}

size_t FindDigest(const void* before, const void* after, size_t units, int unit, uint64_t first_word,
                  uint32_t* positions, RunningDigest& digest) {
  switch (unit) {
    case 1: return FindDigestTyped<uint8_t>(before, after, units, first_word, positions, digest);
    case 2: return FindDigestTyped<uint16_t>(before, after, units, first_word, positions, digest);
    case 4: return FindDigestTyped<uint32_t>(before, after, units, first_word, positions, digest);
    default: return FindDigestTyped<uint64_t>(before, after, units, first_word, positions, digest);
  }
}

size_t Count(const void* before, const void* after, size_t units, int unit) {
  switch (unit) {
    case 1: return CountTyped<uint8_t>(before, after, units);
    case 2: return CountTyped<uint16_t>(before, after, units);
    case 4: return CountTyped<uint32_t>(before, after, units);
    default: return CountTyped<uint64_t>(before, after, units);
  }
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace skerry {
HWY_EXPORT(Find);
HWY_EXPORT(FindDigest);
HWY_EXPORT(Count);

size_t FindChangesVector(const std::byte* before, const std::byte* after, size_t units, int unit, uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(Find)(before, after, units, unit, positions);
}
size_t FindChangesAndDigestVector(const std::byte* before, const std::byte* after, size_t units, int unit,
                                  uint64_t first_word, uint32_t* positions, RunningDigest& digest) {
  return HWY_DYNAMIC_DISPATCH(FindDigest)(before, after, units, unit, first_word, positions, digest);
}
size_t CountChangesVector(const std::byte* before, const std::byte* after, size_t units, int unit) {
  return HWY_DYNAMIC_DISPATCH(Count)(before, after, units, unit);
}

}  // namespace skerry
#endif  // HWY_ONCE
