#include "skerry/patch/class_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "skerry/patch/member_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "skerry/patch/class_bounds-inl.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace skerry::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kHalf = 64;
static_assert(kGroup == 2 * kHalf);

// Decoding a block fetches what follows it in memory, often the next block, if both may stay in the second-level cache
// (in bytes); and what it will look at itself, so many groups on.
constexpr size_t kFetchAhead = 2 << 20;
constexpr size_t kSoonGroups = 5;

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
      // Looks at the half with the element only: of the other one it takes what the row says.
      const size_t half = bit / kHalf * kHalf, left = elements - g * kGroup - half;
      uint64_t bits = HalfClassBits(group + half, bounds, c);
      if (left < kHalf) bits &= (uint64_t{1} << left) - 1;  // padding is of class 0
      const uint64_t lower = (uint64_t{1} << bit % kHalf) - 1;
      const int below = std::popcount(bits & lower);
      const int rest = rows[g * stride + c] - std::popcount(bits & ~lower);
      number_of[i] =
          first[c] + before[(g - chunk) * kMaxClasses + c] + static_cast<uint32_t>(bit < kHalf ? below : rest);
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
  const size_t group_bytes = kGroup * static_cast<size_t>(classes.view().bits) / 8, bytes = groups * group_bytes;
  const bool fetches = bytes <= kFetchAhead;
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
    if (fetches) {
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
HWY_EXPORT(NumberMembers);
HWY_EXPORT(FindMembers);

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
