// How a changed value is written: as the step from the old value in the ordered-integer view of its dtype.
//
// An optimizer step moves a served value to its neighbour most of the time. In the ordered view neighbouring values are
// neighbouring integers: for sign-and-magnitude floats the bits below the sign are flipped where the sign is set, which
// makes -0 and +0 neighbours too; integers and packed codes are their own view. The map is its own inverse.
#ifndef SKERRY_PATCH_VALUE_STEP_H_
#define SKERRY_PATCH_VALUE_STEP_H_

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace skerry {

// All three are free of branches: the signs of steps are random, and a wrongly predicted branch costs more than the
// rest.
template <std::unsigned_integral T>
constexpr T Ordered(T bits, bool sign_magnitude) {
  constexpr int kSignBit = std::numeric_limits<T>::digits - 1;
  const T flip = static_cast<T>((std::numeric_limits<T>::max() >> 1) * static_cast<T>(sign_magnitude));
  const T negative = static_cast<T>(T{0} - static_cast<T>(bits >> kSignBit));  // all ones or all zeros
  return static_cast<T>(bits ^ (negative & flip));
}

// The step as a rank: +1, -1, +2, -2, … are 0, 1, 2, 3, …; `before` and `after` differ.
template <std::unsigned_integral T>
constexpr uint64_t StepRank(T before, T after, bool sign_magnitude) {
  using S = std::make_signed_t<T>;
  auto step = static_cast<int64_t>(
      static_cast<S>(static_cast<T>(Ordered(after, sign_magnitude) - Ordered(before, sign_magnitude))));
  step -= static_cast<int64_t>(step > 0);
  return static_cast<uint64_t>(step) << 1 ^ static_cast<uint64_t>(step >> 63);
}

template <std::unsigned_integral T>
constexpr T AfterStep(T before, uint64_t rank, bool sign_magnitude) {
  const uint64_t negative = uint64_t{0} - (rank & 1);
  const T step = static_cast<T>(((rank / 2 + 1) ^ negative) - negative);
  return Ordered(static_cast<T>(Ordered(before, sign_magnitude) + step), sign_magnitude);
}

// A rank as a symbol and extra bits: 0 … 15 are themselves; symbol 16 + j stands for ranks of bit length 5 + j, whose
// lower 4 + j bits follow; the escape is followed by all bits of the new value.
struct StepToken {
  uint64_t extra = 0;
  uint8_t symbol = 0;
  uint8_t extra_bits = 0;
};
inline constexpr int kStepEscape = 31;

// Raw bits behind a symbol below the escape.
constexpr int StepExtraBits(uint32_t symbol) { return symbol < 16 ? 0 : static_cast<int>(symbol) - 12; }

constexpr StepToken EscapedToken(uint64_t value, int bits) {
  return {.extra = value, .symbol = kStepEscape, .extra_bits = static_cast<uint8_t>(bits)};
}

template <std::unsigned_integral T>
constexpr StepToken TokenOf(T before, T after, bool sign_magnitude) {
  const uint64_t rank = StepRank(before, after, sign_magnitude);
  if (rank < 16) return {.symbol = static_cast<uint8_t>(rank)};
  const int exponent = std::bit_width(rank) - 1;
  if (exponent - 4 + 16 >= kStepEscape) return EscapedToken(after, std::numeric_limits<T>::digits);
  return {.extra = rank - (1ull << exponent),
          .symbol = static_cast<uint8_t>(16 + exponent - 4),
          .extra_bits = static_cast<uint8_t>(exponent)};
}

// The same for 4-bit codes, in the lower half of a byte; ranks are below 16.
constexpr int OrderedCode(uint8_t code, bool sign_magnitude) {
  return sign_magnitude && (code & 8) != 0 ? code ^ 7 : code;
}

constexpr StepToken CodeTokenOf(uint8_t before, uint8_t after, bool sign_magnitude) {
  int step = (OrderedCode(after, sign_magnitude) - OrderedCode(before, sign_magnitude)) & 0xF;
  step -= (step & 8) << 1;
  return {.symbol = static_cast<uint8_t>(step > 0 ? 2 * step - 2 : -2 * step - 1)};
}

constexpr uint8_t AfterCodeStep(uint8_t before, uint32_t rank, bool sign_magnitude) {
  const int step = (rank & 1) != 0 ? -static_cast<int>(rank / 2 + 1) : static_cast<int>(rank / 2 + 1);
  const auto ordered = static_cast<uint8_t>((OrderedCode(before, sign_magnitude) + step) & 0xF);
  return static_cast<uint8_t>(OrderedCode(ordered, sign_magnitude));
}

}  // namespace skerry

#endif  // SKERRY_PATCH_VALUE_STEP_H_
