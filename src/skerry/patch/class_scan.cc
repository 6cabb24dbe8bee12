#include "skerry/patch/class_scan.h"

#include <algorithm>

#include "skerry/base/simd.h"
#include "skerry/patch/class_kernel.h"

namespace skerry {
namespace {

uint64_t ElementAt(ByteSpan bytes, const MagnitudeView& view, size_t i) {
  switch (view.bits) {
    case 4: return std::to_integer<uint64_t>(bytes[i / 2]) >> (i % 2 * 4) & 0xF;
    case 8: return LoadLe<uint8_t>(bytes.data() + i);
    case 16: return LoadLe<uint16_t>(bytes.data() + 2 * i);
    case 32: return LoadLe<uint32_t>(bytes.data() + 4 * i);
    default: return LoadLe<uint64_t>(bytes.data() + 8 * i);
  }
}

}  // namespace

void WantedMembers::Add(int c, std::span<const uint32_t> numbers, const uint32_t* payloads) {
  const auto at = static_cast<size_t>(c);
  next[at] = numbers.data();
  end[at] = numbers.data() + numbers.size();
  payload[at] = payloads;
  distance[at] = numbers.empty() ? kNone : static_cast<int32_t>(numbers.front());
}

void CountMembersScalar(ByteSpan bytes, const MagnitudeClasses& classes, uint8_t* rows, ClassCounts& counts) {
  const size_t elements = ElementsIn(bytes, classes.view());
  std::fill_n(rows, RowsBytes(elements, classes.count()), uint8_t{0});
  for (size_t i = 0; i < elements; ++i) {
    const auto c = static_cast<size_t>(classes.ClassOf(ElementAt(bytes, classes.view(), i)));
    ++rows[i / kGroupElements * RowBytes(classes.count()) + c];
    ++counts[c];
  }
}

void NumberMembersScalar(ByteSpan bytes, const MagnitudeClasses& classes, std::span<const uint32_t> positions,
                         ClassCounts& first, uint8_t* class_of, uint32_t* number_of) {
  const size_t elements = ElementsIn(bytes, classes.view());
  size_t at = 0;
  for (size_t i = 0; i < elements; ++i) {
    const auto c = static_cast<size_t>(classes.ClassOf(ElementAt(bytes, classes.view(), i)));
    if (at < positions.size() && positions[at] == i) {
      class_of[at] = static_cast<uint8_t>(c);
      number_of[at] = first[c];
      ++at;
    }
    ++first[c];
  }
}

size_t FindMembersScalar(ByteSpan bytes, const MagnitudeClasses& classes, WantedMembers& wanted,
                         uint32_t first_position, uint32_t* positions, uint32_t* payloads) {
  const size_t elements = ElementsIn(bytes, classes.view());
  size_t count = 0;
  for (size_t i = 0; i < elements; ++i) {
    const auto c = static_cast<size_t>(classes.ClassOf(ElementAt(bytes, classes.view(), i)));
    if (wanted.distance[c]-- != 0) continue;
    positions[count] = first_position + static_cast<uint32_t>(i);
    payloads[count] = *wanted.payload[c]++;
    ++count;
    wanted.distance[c] = wanted.Step(c) - 1;
    wanted.Advance(c);
  }
  return count;
}

void CountMembers(ByteSpan bytes, const MagnitudeClasses& classes, uint8_t* rows, ClassCounts& counts) {
  if (SimdIsScalar()) return CountMembersScalar(bytes, classes, rows, counts);
  CountMembersVector(bytes.data(), ElementsIn(bytes, classes.view()), classes, rows, counts);
}

void NumberMembers(ByteSpan bytes, const MagnitudeClasses& classes, const uint8_t* rows,
                   std::span<const uint32_t> positions, ClassCounts& first, uint8_t* class_of, uint32_t* number_of) {
  if (SimdIsScalar()) return NumberMembersScalar(bytes, classes, positions, first, class_of, number_of);
  NumberMembersVector(bytes.data(), ElementsIn(bytes, classes.view()), classes, rows, positions, first, class_of,
                      number_of);
}

size_t FindMembers(ByteSpan bytes, const MagnitudeClasses& classes, const uint8_t* rows, WantedMembers& wanted,
                   uint32_t first_position, uint32_t* positions, uint32_t* payloads) {
  if (SimdIsScalar()) return FindMembersScalar(bytes, classes, wanted, first_position, positions, payloads);
  return FindMembersVector(bytes.data(), ElementsIn(bytes, classes.view()), classes, rows, wanted, first_position,
                           positions, payloads);
}

}  // namespace skerry
