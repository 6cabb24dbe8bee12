#include "skerry/patch/class_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/patch/count_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "skerry/patch/class_bounds-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kPrefetchBytes = 2048;  // as in diff/compare_kernel.cc

// Bytes of a row in two words.
struct RowWords {
  uint64_t low, high;
};

// Puts together how many elements of a group are above each bound: counts[c] as byte c, byte 0 is the group's size.
template <int kClasses>
HWY_INLINE RowWords Pack(const uint64_t* counts) {
  RowWords words{.low = kGroup, .high = 0};
  for (int c = 1; c < kClasses; ++c) (c < 8 ? words.low : words.high) |= counts[c] << (c % 8 * 8);
  return words;
}

// Of a group of bytes: calls load(i) for vectors of them until all are through.
template <int kClasses, class D8, class Load>
HWY_INLINE RowWords CountBytesAbove(D8 d8, const int8_t* bounds, Load load) {
  uint64_t counts[kClasses] = {};
  for (size_t i = 0; i < kGroup; i += hn::Lanes(d8)) {
    const auto v = load(i);
    for (int c = 1; c < kClasses; ++c) counts[c] += hn::CountTrue(d8, hn::Gt(v, hn::Set(d8, bounds[c])));
  }
  return Pack<kClasses>(counts);
}

// Of wider elements. Not by CountTrue: where g++ 12 runs out of mask registers, it spills a mask of 32 lanes as 32
// bits and counts 64 (seen with AVX-512).
template <int kClasses, typename T>
HWY_INLINE RowWords CountAbove(const T* group, const Bounds<T>& bounds) {
  const hn::CappedTag<T, kGroup> d;
  const auto mask = hn::Set(d, bounds.mask), flip = hn::Set(d, bounds.flip);
  uint64_t counts[kClasses] = {};
  for (int c = 1; c < kClasses; ++c) {
    const auto bound = hn::Set(d, bounds.above[c]);
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      const auto v = hn::Xor(hn::And(hn::LoadU(d, group + i), mask), flip);
      sum = hn::Sub(sum, hn::VecFromMask(d, hn::Gt(v, bound)));
    }
    counts[c] = static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return Pack<kClasses>(counts);
}

// The upper eight bits of magnitudes of more than eight are all that counts where every bound is a multiple of what
// they stand for; for bfloat16 and float32 that is the exponent.
template <typename T>
struct UpperBits {
  explicit UpperBits(const MagnitudeClasses& classes) {
    constexpr int kDropped = 8 * sizeof(T) - 9;  // the sign goes to the left
    std::fill_n(above, kMaxClasses, int8_t{127});
    exact = classes.view().mask == ~uint64_t{0} >> (65 - 8 * sizeof(T));
    for (int c = 1; c < classes.count(); ++c) {
      const uint64_t upper = classes.lowest(c) >> kDropped;
      exact &= upper << kDropped == classes.lowest(c);
      above[c] = static_cast<int8_t>((upper - 1) ^ 0x80);  // compared as signed integers
    }
  }
  bool exact;
  int8_t above[kMaxClasses];
};

// A vector of such bytes from sizeof(T) vectors of elements, in no particular order.
template <class D8>
HWY_INLINE hn::Vec<D8> GatherUpperBits(D8 d8, const int16_t* at) {
  const hn::Repartition<uint16_t, D8> d;
  const auto* words = reinterpret_cast<const uint16_t*>(at);
  const auto a = hn::ShiftLeft<1>(hn::LoadU(d, words)), b = hn::ShiftLeft<1>(hn::LoadU(d, words + hn::Lanes(d)));
  const auto upper = hn::Or(hn::And(a, hn::Set(d, 0xFF00)), hn::ShiftRight<8>(b));
  return hn::BitCast(d8, hn::Xor(upper, hn::Set(d, 0x8080)));
}
template <class D8>
HWY_INLINE hn::Vec<D8> GatherUpperBits(D8 d8, const int32_t* at) {
  const hn::Repartition<uint32_t, D8> d;
  const auto* words = reinterpret_cast<const uint32_t*>(at);
  const size_t lanes = hn::Lanes(d);
  const auto upper = hn::Set(d, 0xFF000000);
  const auto a = hn::And(hn::ShiftLeft<1>(hn::LoadU(d, words)), upper);
  const auto b = hn::And(hn::ShiftLeft<1>(hn::LoadU(d, words + lanes)), upper);
  const auto e = hn::And(hn::ShiftLeft<1>(hn::LoadU(d, words + 2 * lanes)), upper);
  const auto f = hn::ShiftRight<24>(hn::ShiftLeft<1>(hn::LoadU(d, words + 3 * lanes)));
  const auto all = hn::Or(hn::Or(a, hn::ShiftRight<8>(b)), hn::Or(hn::ShiftRight<16>(e), f));
  return hn::BitCast(d8, hn::Xor(all, hn::Set(d, 0x80808080)));
}

// Sums rows, whose bytes hold at most 128, without unpacking each of them.
class RowSums {
 public:
  HWY_INLINE void Add(const RowWords& words) {
    even_[0] += words.low & kEven;
    odd_[0] += words.low >> 8 & kEven;
    even_[1] += words.high & kEven;
    odd_[1] += words.high >> 8 & kEven;
    if (++rows_ == kMostRows) Flush();
  }
  const uint64_t* Total() {
    Flush();
    return totals_;
  }

 private:
  static constexpr uint64_t kEven = 0x00FF00FF00FF00FF;
  static constexpr int kMostRows = 511;  // of 128 fit into 16 bits

  void Flush() {
    for (int c = 0; c < kMaxClasses; ++c) {
      totals_[c] += (c % 2 == 0 ? even_ : odd_)[c / 8] >> (c % 8 / 2 * 16) & 0xFFFF;
    }
    even_[0] = even_[1] = odd_[0] = odd_[1] = 0;
    rows_ = 0;
  }

  uint64_t even_[2] = {}, odd_[2] = {}, totals_[kMaxClasses] = {};
  int rows_ = 0;
};

template <int kClasses>
void AddTotals(RowSums& sums, ClassCounts& counts) {
  const uint64_t* totals = sums.Total();
  for (size_t c = 0; c < kClasses; ++c) counts[c] += static_cast<uint32_t>(totals[c]);
}

template <int kClasses, typename T>
void CountTyped(const std::byte* data, size_t elements, bool codes, const MagnitudeClasses& classes, uint8_t* rows,
                ClassCounts& counts) {
  const Bounds<T> bounds(classes);
  const hn::CappedTag<int8_t, kGroup> d8;
  HWY_ALIGN T buffer[kGroup];
  RowSums sums;
  const size_t groups = (elements + kGroup - 1) / kGroup;
  const auto count_all = [&](auto count_group) HWY_ATTR {
    for (size_t g = 0; g < groups; ++g, rows += kClasses) {
      const T* group = GroupAt(data, g, elements, codes, buffer);
      for (size_t line = 0; line < kGroup * sizeof(T); line += 64) {
        hwy::Prefetch(reinterpret_cast<const uint8_t*>(group) + kPrefetchBytes + line);
      }
      RowWords words = count_group(group);
      // Members of class c are those above its bound but not above the next one: no byte borrows from the next.
      words.low -= words.low >> 8 | words.high << 56;
      words.high -= words.high >> 8;
      if (elements - g * kGroup < kGroup) words.low -= kGroup - (elements - g * kGroup);  // padding is of class 0
      std::memcpy(rows, &words, kClasses);
      sums.Add(words);
    }
  };
  if constexpr (sizeof(T) == 1) {
    const auto mask = hn::Set(d8, bounds.mask), flip = hn::Set(d8, bounds.flip);
    count_all([&](const T* group) HWY_ATTR {
      return CountBytesAbove<kClasses>(
          d8, bounds.above, [&](size_t i) HWY_ATTR { return hn::Xor(hn::And(hn::LoadU(d8, group + i), mask), flip); });
    });
  } else {
    if constexpr (sizeof(T) <= 4) {
      if (const UpperBits<T> upper(classes); upper.exact) {
        count_all([&](const T* group) HWY_ATTR {
          return CountBytesAbove<kClasses>(d8, upper.above,
                                           [&](size_t i) HWY_ATTR { return GatherUpperBits(d8, group + i); });
        });
        AddTotals<kClasses>(sums, counts);
        return;
      }
    }
    count_all([&](const T* group) HWY_ATTR { return CountAbove<kClasses>(group, bounds); });
  }
  AddTotals<kClasses>(sums, counts);
}

template <typename T>
void CountForView(const std::byte* data, size_t elements, const MagnitudeClasses& classes, uint8_t* rows,
                  ClassCounts& counts) {
  const bool codes = classes.view().bits == 4;
  switch (RowBytes(classes.count())) {
    case 4: return CountTyped<4, T>(data, elements, codes, classes, rows, counts);
    case 8: return CountTyped<8, T>(data, elements, codes, classes, rows, counts);
    case 12: return CountTyped<12, T>(data, elements, codes, classes, rows, counts);
    default: return CountTyped<16, T>(data, elements, codes, classes, rows, counts);
  }
}

void CountMembers(const std::byte* data, size_t elements, const MagnitudeClasses& classes, uint8_t* rows,
                  ClassCounts& counts) {
  switch (classes.view().bits) {
    case 4:
    case 8: return CountForView<int8_t>(data, elements, classes, rows, counts);
    case 16: return CountForView<int16_t>(data, elements, classes, rows, counts);
    case 32: return CountForView<int32_t>(data, elements, classes, rows, counts);
    default: return CountForView<int64_t>(data, elements, classes, rows, counts);
  }
}
}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace skerry {
HWY_EXPORT(CountMembers);

void CountMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, uint8_t* rows,
                        ClassCounts& counts) {
  HWY_DYNAMIC_DISPATCH(CountMembers)(data, elements, classes, rows, counts);
}

}  // namespace skerry
#endif  // HWY_ONCE
