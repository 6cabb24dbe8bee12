// Members of magnitude classes: counted, numbered and found again. A group is 128 elements; a *row* holds how many of
// them are of each class. The numbering runs over a block: class c's member 0 is the block's first element of class c.
#ifndef SKERRY_PATCH_CLASS_SCAN_H_
#define SKERRY_PATCH_CLASS_SCAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "skerry/base/bytes.h"
#include "skerry/patch/magnitude_classes.h"

namespace skerry {

inline constexpr size_t kGroupElements = 128;

// Bytes of a row: a multiple of 4. Kernels may write up to kRowSlack bytes behind the last row.
constexpr size_t RowBytes(int classes) { return static_cast<size_t>(classes + 3) / 4 * 4; }
inline constexpr size_t kRowSlack = 16;

// Elements in `bytes`: two codes a byte where the view has 4 bits.
inline size_t ElementsIn(ByteSpan bytes, const MagnitudeView& view) {
  return bytes.size() * 8 / static_cast<size_t>(view.bits);
}
// Bytes of all rows of so many elements, without the slack.
inline size_t RowsBytes(size_t elements, int classes) {
  return (elements + kGroupElements - 1) / kGroupElements * RowBytes(classes);
}

using ClassCounts = std::array<uint32_t, kMaxClasses>;

// Writes the rows of the elements in `bytes` and adds to `counts` how many are of each class.
void CountMembers(ByteSpan bytes, const MagnitudeClasses& classes, uint8_t* rows, ClassCounts& counts);

// For each of the rising `positions` among the elements in `bytes`, whose rows are `rows`: its class and its number in
// it. `first` holds the number of the first member of each class here, and is moved behind the last one.
void NumberMembers(ByteSpan bytes, const MagnitudeClasses& classes, const uint8_t* rows,
                   std::span<const uint32_t> positions, ClassCounts& first, uint8_t* class_of, uint32_t* number_of);

// Wanted members of all classes, by class and number, and what belongs to each.
struct WantedMembers {
  std::array<const uint32_t*, kMaxClasses> next{}, end{};  // numbers, rising
  std::array<const uint32_t*, kMaxClasses> payload{};      // beside `next`
  // Number of the next wanted member, counted from the next element to be looked at; kNone when there is no more.
  std::array<int32_t, kMaxClasses> distance{};
  static constexpr int32_t kNone = 1 << 30;

  void Add(int c, std::span<const uint32_t> numbers, const uint32_t* payloads);
  // From the next wanted member of class c, which there is unless `distance` is kNone, to the one after it.
  int32_t Step(size_t c) const { return end[c] - next[c] < 2 ? kNone : static_cast<int32_t>(next[c][1] - next[c][0]); }
  // Moves on to the next one; returns the step from there.
  int32_t Advance(size_t c) {
    ++next[c];
    return Step(c);
  }
};

// Finds the wanted members among the elements in `bytes` and moves `wanted` behind them: writes their positions,
// rising, plus `first_position`, and their payloads, and returns how many there are. The arrays have room for all that
// are wanted.
size_t FindMembers(ByteSpan bytes, const MagnitudeClasses& classes, const uint8_t* rows, WantedMembers& wanted,
                   uint32_t first_position, uint32_t* positions, uint32_t* payloads);

// The specification of the three, element by element.
void CountMembersScalar(ByteSpan bytes, const MagnitudeClasses& classes, uint8_t* rows, ClassCounts& counts);
void NumberMembersScalar(ByteSpan bytes, const MagnitudeClasses& classes, std::span<const uint32_t> positions,
                         ClassCounts& first, uint8_t* class_of, uint32_t* number_of);
size_t FindMembersScalar(ByteSpan bytes, const MagnitudeClasses& classes, WantedMembers& wanted,
                         uint32_t first_position, uint32_t* positions, uint32_t* payloads);

}  // namespace skerry

#endif  // SKERRY_PATCH_CLASS_SCAN_H_
