#include "skerry/patch/class_kernel.h"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/patch/class_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "skerry/base/mask_bits-inl.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kGroup = kGroupElements, kHalf = 64;
static_assert(kGroup == 2 * kHalf);
constexpr size_t kFetchAhead = 2 << 20;  // bytes
constexpr size_t kSoonGroups = 5;

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
                ClassCounts& counts, size_t ahead) {
  const Bounds<T> bounds(classes);
  const hn::CappedTag<int8_t, kGroup> d8;
  HWY_ALIGN T buffer[kGroup];
  RowSums sums;
  const size_t groups = (elements + kGroup - 1) / kGroup;
  const auto count_all = [&](auto count_group) HWY_ATTR {
    for (size_t g = 0; g < groups; ++g, rows += kClasses) {
      const T* group = GroupAt(data, g, elements, codes, buffer);
      for (size_t line = 0; line < kGroup * sizeof(T); line += 64) {
        hwy::Prefetch(reinterpret_cast<const uint8_t*>(group) + ahead + line);
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
                  ClassCounts& counts, size_t ahead) {
  const bool codes = classes.view().bits == 4;
  switch (RowBytes(classes.count())) {
    case 4: return CountTyped<4, T>(data, elements, codes, classes, rows, counts, ahead);
    case 8: return CountTyped<8, T>(data, elements, codes, classes, rows, counts, ahead);
    case 12: return CountTyped<12, T>(data, elements, codes, classes, rows, counts, ahead);
    default: return CountTyped<16, T>(data, elements, codes, classes, rows, counts, ahead);
  }
}

void CountMembers(const std::byte* data, size_t elements, const MagnitudeClasses& classes, uint8_t* rows,
                  ClassCounts& counts, size_t ahead) {
  switch (classes.view().bits) {
    case 4:
    case 8: return CountForView<int8_t>(data, elements, classes, rows, counts, ahead);
    case 16: return CountForView<int16_t>(data, elements, classes, rows, counts, ahead);
    case 32: return CountForView<int32_t>(data, elements, classes, rows, counts, ahead);
    default: return CountForView<int64_t>(data, elements, classes, rows, counts, ahead);
  }
}

// A bit an element of a group.
struct GroupBits {
  uint64_t low, high;
};

// Bit i is set where element i of 64 is of class c. Padding is of class 0.
template <typename T>
HWY_INLINE uint64_t HalfClassBits(const T* half, const Bounds<T>& bounds, size_t c) {
  const hn::CappedTag<T, kHalf> d;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, bounds.mask), flip = hn::Set(d, bounds.flip);
  const auto lowest = hn::Set(d, bounds.lowest[c]), above = hn::Set(d, bounds.above[c + 1]);
  uint64_t others = 0;
  for (size_t i = 0; i < kHalf; i += lanes) {
    const auto v = hn::Xor(hn::And(hn::LoadU(d, half + i), mask), flip);
    others |= MaskBits(d, hn::Or(hn::Gt(v, above), hn::Gt(lowest, v))) << i;
  }
  return ~others;
}

template <typename T>
HWY_INLINE GroupBits ClassBits(const T* group, const Bounds<T>& bounds, size_t c) {
  return {HalfClassBits(group, bounds, c), HalfClassBits(group + kHalf, bounds, c)};
}

// The index of the set bit of `word` that has `rank` set bits below it; 64 when there is none.
HWY_INLINE uint32_t SelectBit(uint64_t word, uint32_t rank) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return static_cast<uint32_t>(std::countr_zero(_pdep_u64(uint64_t{1} << rank, word)));
#else
  for (; rank > 0; --rank) word &= word - 1;
  return static_cast<uint32_t>(std::countr_zero(word));
#endif
}

// The same of a group's bits. Without branches: which half it is is as good as random.
HWY_INLINE uint32_t SelectBit(const GroupBits& bits, uint32_t rank) {
  const auto in_low = static_cast<uint32_t>(std::popcount(bits.low));
  const bool is_high = rank >= in_low;
  const uint64_t word = is_high ? bits.high : bits.low;
  return (SelectBit(word, (rank - (is_high ? in_low : 0)) % kHalf) + (is_high ? kHalf : 0)) % kGroup;
}

#if HWY_TARGET != HWY_SCALAR
// The row at `row` as 4 lanes of 32 bits.
HWY_INLINE hn::Vec<hn::FixedTag<int32_t, 4>> Row4(const uint8_t* row) {
  const hn::FixedTag<int32_t, 4> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  return hn::PromoteTo(d, hn::LoadU(d8, row));
}
#endif

// Members of each class before each group of a run, 16 bits each, a line of kMaxClasses a group: sums of rows.
#if HWY_TARGET != HWY_SCALAR
void SumRows(const uint8_t* rows, size_t stride, size_t groups, uint16_t* HWY_RESTRICT before) {
  const hn::FixedTag<uint16_t, 8> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  auto low = hn::Zero(d), high = hn::Zero(d);
  for (size_t g = 0; g < groups; ++g, rows += stride, before += kMaxClasses) {
    hn::StoreU(low, d, before);
    low = hn::Add(low, hn::PromoteTo(d, hn::LoadU(d8, rows)));
    if (stride <= 8) continue;
    hn::StoreU(high, d, before + 8);
    high = hn::Add(high, hn::PromoteTo(d, hn::LoadU(d8, rows + 8)));
  }
}
#endif

template <typename T>
void NumberTyped(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                 std::span<const uint32_t> positions, ClassCounts& first, uint8_t* class_of, uint32_t* number_of) {
#if HWY_TARGET == HWY_SCALAR
  (void)rows;
  NumberMembersScalar({data, elements * static_cast<size_t>(classes.view().bits) / 8}, classes, positions, first,
                      class_of, number_of);
#else
  const bool codes = classes.view().bits == 4;
  const Bounds<T> bounds(classes);
  const size_t stride = RowBytes(classes.count());
  HWY_ALIGN T buffer[kGroup];
  // So many groups at a time that the members before each fit into 16 bits.
  constexpr size_t kChunkGroups = 512;
  HWY_ALIGN uint16_t before[kChunkGroups * kMaxClasses];
  size_t i = 0;
  for (size_t chunk = 0; chunk * kGroup < elements; chunk += kChunkGroups) {
    const size_t groups = std::min(kChunkGroups, (elements + kGroup - 1) / kGroup - chunk);
    SumRows(rows + chunk * stride, stride, groups, before);
    for (; i < positions.size() && positions[i] < (chunk + groups) * kGroup; ++i) {
      const size_t g = positions[i] / kGroup, bit = positions[i] % kGroup;
      const T* group = GroupAt(data, g, elements, codes, buffer);
      T element;
      // As bytes: a tensor may lie at any address.
      std::memcpy(&element, reinterpret_cast<const std::byte*>(group) + bit * sizeof(T), sizeof(T));
      const auto c = static_cast<size_t>(bounds.ClassOf(element));
      class_of[i] = static_cast<uint8_t>(c);
      const GroupBits bits = ClassBits(group, bounds, c);
      const uint64_t half = bit < kHalf ? bits.low : bits.high;
      const int below =
          std::popcount(half & ((uint64_t{1} << bit % kHalf) - 1)) + (bit < kHalf ? 0 : std::popcount(bits.low));
      number_of[i] = first[c] + before[(g - chunk) * kMaxClasses + c] + static_cast<uint32_t>(below);
    }
    const uint8_t* last = rows + (chunk + groups - 1) * stride;
    for (size_t c = 0; c < stride; ++c) first[c] += before[(groups - 1) * kMaxClasses + c] + uint32_t{last[c]};
  }
#endif
}

void NumberMembers(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                   std::span<const uint32_t> positions, ClassCounts& first, uint8_t* class_of, uint32_t* number_of) {
  const auto number = [&](auto type) {
    NumberTyped<decltype(type)>(data, elements, classes, rows, positions, first, class_of, number_of);
  };
  switch (classes.view().bits) {
    case 4:
    case 8: return number(int8_t{});
    case 16: return number(int16_t{});
    case 32: return number(int32_t{});
    default: return number(int64_t{});
  }
}

// From kLanes + kMaxClasses - c on, lane c is all ones.
alignas(16) constexpr int32_t kLanes[2 * kMaxClasses] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1};

// kQuads: vectors of 4 classes.
template <int kQuads, typename T>
size_t FindTyped(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                 WantedMembers& wanted, uint32_t first_position, uint32_t* HWY_RESTRICT positions,
                 uint32_t* HWY_RESTRICT payloads) {
#if HWY_TARGET == HWY_SCALAR
  (void)rows;
  return FindMembersScalar({data, elements * static_cast<size_t>(classes.view().bits) / 8}, classes, wanted,
                           first_position, positions, payloads);
#else
  constexpr size_t kStride = 4 * kQuads;
  const bool codes = classes.view().bits == 4;
  const Bounds<T> bounds(classes);
  const size_t groups = (elements + kGroup - 1) / kGroup;
  HWY_ALIGN T buffer[kGroup];
  HWY_ALIGN int32_t distance[kMaxClasses];
  uint32_t payload_at[kGroup];
  // What follows in memory is often the next block: it is fetched meanwhile, if it may stay in the cache.
  const size_t group_bytes = kGroup * static_cast<size_t>(classes.view().bits) / 8, bytes = groups * group_bytes;
  const bool ahead = bytes <= kFetchAhead;
  int32_t step[kMaxClasses];  // from the next wanted member to the one after it
  for (size_t c = 0; c < kMaxClasses; ++c) {
    distance[c] = wanted.distance[c];
    step[c] = wanted.Step(c);
  }
  const hn::FixedTag<int32_t, 4> d;
  auto d0 = hn::Load(d, distance), d1 = hn::Load(d, distance + 4), d2 = hn::Load(d, distance + 8),
       d3 = hn::Load(d, distance + 12);
  size_t count = 0;
  for (size_t g = 0; g < groups; ++g) {
    // A class has a wanted member here where the distance to it is below the number of members.
    const uint8_t* row = rows + g * kStride;
    if (ahead) {
      const std::byte* here = data + g * group_bytes;
      for (size_t line = 0; line < group_bytes; line += 64) {
        __builtin_prefetch(here + kSoonGroups * group_bytes + line);
        __builtin_prefetch(here + bytes + line, 0, 2);
      }
    }
    const auto r0 = Row4(row);
    uint64_t hits = MaskBits(d, hn::Lt(d0, r0));
    const auto before0 = d0, before1 = d1, before2 = d2, before3 = d3;
    d0 = hn::Sub(d0, r0);
    if constexpr (kQuads > 1) {
      const auto r1 = Row4(row + 4);
      hits |= MaskBits(d, hn::Lt(d1, r1)) << 4;
      d1 = hn::Sub(d1, r1);
    }
    if constexpr (kQuads > 2) {
      const auto r2 = Row4(row + 8);
      hits |= MaskBits(d, hn::Lt(d2, r2)) << 8;
      d2 = hn::Sub(d2, r2);
    }
    if constexpr (kQuads > 3) {
      const auto r3 = Row4(row + 12);
      hits |= MaskBits(d, hn::Lt(d3, r3)) << 12;
      d3 = hn::Sub(d3, r3);
    }
    if (hits == 0) continue;

    hn::Store(before0, d, distance);
    if constexpr (kQuads > 1) hn::Store(before1, d, distance + 4);
    if constexpr (kQuads > 2) hn::Store(before2, d, distance + 8);
    if constexpr (kQuads > 3) hn::Store(before3, d, distance + 12);
    const T* group = GroupAt(data, g, elements, codes, buffer);
    uint64_t found[2] = {};
    for (; hits != 0; hits &= hits - 1) {
      const auto c = static_cast<size_t>(std::countr_zero(hits));
      const GroupBits members = ClassBits(group, bounds, c);
      const uint32_t row_c = row[c];
      auto at = static_cast<uint32_t>(distance[c]);
      do {
        // Through a register: the vectors must not wait for a store of one lane.
        const auto ahead = hn::Set(d, step[c]);
        const int32_t* lane = kLanes + kMaxClasses - c;
        d0 = hn::Add(d0, hn::And(ahead, hn::LoadU(d, lane)));
        if constexpr (kQuads > 1) d1 = hn::Add(d1, hn::And(ahead, hn::LoadU(d, lane + 4)));
        if constexpr (kQuads > 2) d2 = hn::Add(d2, hn::And(ahead, hn::LoadU(d, lane + 8)));
        if constexpr (kQuads > 3) d3 = hn::Add(d3, hn::And(ahead, hn::LoadU(d, lane + 12)));
        // The mask is for a base that others write to meanwhile: then the member may be gone.
        const uint32_t bit = SelectBit(members, at);
        payload_at[bit] = *wanted.payload[c]++;
        found[bit / kHalf] |= uint64_t{1} << bit % kHalf;
        at += static_cast<uint32_t>(step[c]);
        step[c] = wanted.Advance(c);
      } while (HWY_UNLIKELY(at < row_c));
    }
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint64_t word = found[half]; word != 0; word &= word - 1) {
        const uint32_t bit = half * kHalf + static_cast<uint32_t>(std::countr_zero(word));
        positions[count] = first_position + static_cast<uint32_t>(g * kGroup) + bit;
        payloads[count] = payload_at[bit];
        ++count;
      }
    }
  }
  hn::Store(d0, d, distance);
  if constexpr (kQuads > 1) hn::Store(d1, d, distance + 4);
  if constexpr (kQuads > 2) hn::Store(d2, d, distance + 8);
  if constexpr (kQuads > 3) hn::Store(d3, d, distance + 12);
  std::copy_n(distance, kMaxClasses, wanted.distance.begin());
  return count;
#endif
}

size_t FindMembers(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                   WantedMembers& wanted, uint32_t first_position, uint32_t* positions, uint32_t* payloads) {
  const auto find = [&](auto type) -> size_t {
    using T = decltype(type);
    switch (RowBytes(classes.count())) {
      case 4: return FindTyped<1, T>(data, elements, classes, rows, wanted, first_position, positions, payloads);
      case 8: return FindTyped<2, T>(data, elements, classes, rows, wanted, first_position, positions, payloads);
      case 12: return FindTyped<3, T>(data, elements, classes, rows, wanted, first_position, positions, payloads);
      default: return FindTyped<4, T>(data, elements, classes, rows, wanted, first_position, positions, payloads);
    }
  };
  switch (classes.view().bits) {
    case 4:
    case 8: return find(int8_t{});
    case 16: return find(int16_t{});
    case 32: return find(int32_t{});
    default: return find(int64_t{});
  }
}

}  // namespace skerry::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace skerry {
HWY_EXPORT(CountMembers);
HWY_EXPORT(NumberMembers);
HWY_EXPORT(FindMembers);

void CountMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, uint8_t* rows,
                        ClassCounts& counts, size_t ahead) {
  HWY_DYNAMIC_DISPATCH(CountMembers)(data, elements, classes, rows, counts, ahead);
}
void NumberMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                         std::span<const uint32_t> positions, ClassCounts& first, uint8_t* class_of,
                         uint32_t* number_of) {
  HWY_DYNAMIC_DISPATCH(NumberMembers)(data, elements, classes, rows, positions, first, class_of, number_of);
}
size_t FindMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                         WantedMembers& wanted, uint32_t first_position, uint32_t* positions, uint32_t* payloads) {
  return HWY_DYNAMIC_DISPATCH(FindMembers)(data, elements, classes, rows, wanted, first_position, positions, payloads);
}

}  // namespace skerry
#endif  // HWY_ONCE
