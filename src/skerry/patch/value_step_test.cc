#include "skerry/patch/value_step.h"

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

template <typename T>
T FromToken(T before, const StepToken& token, bool sign_magnitude) {
  if (token.symbol == kStepEscape) return static_cast<T>(token.extra);
  const uint64_t rank = token.symbol < 16 ? token.symbol : (uint64_t{1} << (token.symbol - 12)) + token.extra;
  return AfterStep(before, rank, sign_magnitude);
}

// The token says exactly `after`, and keeps the limits of the format.
template <typename T>
bool TokenIsRight(T before, T after, bool sign_magnitude) {
  const StepToken token = TokenOf(before, after, sign_magnitude);
  constexpr int kBits = std::numeric_limits<T>::digits;
  const int bits = token.symbol < 16 ? 0 : token.symbol == kStepEscape ? kBits : token.symbol - 12;
  return token.symbol < 32 && token.extra_bits == bits && (bits == 64 || token.extra >> bits == 0) &&
         StepRank(before, after, sign_magnitude) <= std::numeric_limits<T>::max() &&
         AfterStep(before, StepRank(before, after, sign_magnitude), sign_magnitude) == after &&
         FromToken(before, token, sign_magnitude) == after;
}

TEST(ValueStep, IsLosslessForAllPairsOf8BitValues) {
  for (const bool sign_magnitude : {false, true}) {
    for (int before = 0; before < 256; ++before) {
      for (int after = 0; after < 256; ++after) {
        if (before == after) continue;
        ASSERT_TRUE(TokenIsRight(static_cast<uint8_t>(before), static_cast<uint8_t>(after), sign_magnitude))
            << before << " to " << after;
      }
    }
  }
}

TEST(ValueStep, IsLosslessForAll16BitValuesFromTellingOnes) {
  const std::vector<uint16_t> telling = {0x0000, 0x8000, 0x0001, 0x8001, 0x3F80, 0xBF80, 0x7F80,
                                         0xFF80, 0x7F81, 0x7FC0, 0xFFC1, 0x7FFF, 0xFFFF, 0x1234};
  for (const bool sign_magnitude : {false, true}) {
    for (const uint16_t one : telling) {
      for (int other = 0; other < 65536; ++other) {
        const auto value = static_cast<uint16_t>(other);
        if (value == one) continue;
        ASSERT_TRUE(TokenIsRight(one, value, sign_magnitude)) << one << " to " << value;
        ASSERT_TRUE(TokenIsRight(value, one, sign_magnitude)) << value << " to " << one;
      }
    }
  }
}

template <typename T>
void ExpectLosslessForRandomPairs() {
  Random random(sizeof(T));
  for (int i = 0; i < 200'000; ++i) {
    const T before = static_cast<T>(random());
    // Near and far steps alike.
    const T after = static_cast<T>(before + static_cast<T>(random() >> random() % 64) * (random() & 1 ? 1 : -1));
    if (before == after) continue;
    ASSERT_TRUE(TokenIsRight(before, after, false)) << before << " to " << after;
    ASSERT_TRUE(TokenIsRight(before, after, true)) << before << " to " << after;
  }
  const T edges[] = {0, 1, std::numeric_limits<T>::max(), std::numeric_limits<T>::max() / 2,
                     static_cast<T>(std::numeric_limits<T>::max() / 2 + 1)};
  for (const T before : edges) {
    for (const T after : edges) {
      if (before == after) continue;
      EXPECT_TRUE(TokenIsRight(before, after, false)) << before << " to " << after;
      EXPECT_TRUE(TokenIsRight(before, after, true)) << before << " to " << after;
    }
  }
}

TEST(ValueStep, IsLosslessForRandomPairsOf32And64BitValues) {
  ExpectLosslessForRandomPairs<uint32_t>();
  ExpectLosslessForRandomPairs<uint64_t>();
}

TEST(ValueStep, NeighboursInValueAreNeighboursInRank) {
  EXPECT_EQ(StepRank<uint16_t>(0x3F80, 0x3F81, true), 0u) << "up";
  EXPECT_EQ(StepRank<uint16_t>(0x3F80, 0x3F7F, true), 1u) << "down";
  EXPECT_EQ(StepRank<uint16_t>(0xBF80, 0xBF7F, true), 0u) << "a negative value's magnitude shrinks: up";
  EXPECT_EQ(StepRank<uint16_t>(0xBF80, 0xBF81, true), 1u);
  EXPECT_EQ(StepRank<uint16_t>(0x8000, 0x0000, true), 0u) << "-0 to +0";
  EXPECT_EQ(StepRank<uint16_t>(0x0000, 0x8000, true), 1u) << "+0 to -0";
  EXPECT_EQ(StepRank<uint16_t>(0x0001, 0x8001, true), 5u) << "over both zeros: -3";
  EXPECT_EQ(StepRank<uint8_t>(0xFF, 0x00, false), 0u) << "integers wrap";
}

TEST(ValueStep, TokensHaveTheDocumentsSymbols) {
  const auto symbol_of_rank = [](uint64_t rank) {
    const uint32_t before = 0x1000'0000;
    return int{TokenOf(before, AfterStep(before, rank, false), false).symbol};
  };
  EXPECT_EQ(symbol_of_rank(0), 0);
  EXPECT_EQ(symbol_of_rank(15), 15);
  EXPECT_EQ(symbol_of_rank(16), 16);
  EXPECT_EQ(symbol_of_rank(31), 16);
  EXPECT_EQ(symbol_of_rank(32), 17);
  EXPECT_EQ(symbol_of_rank((1u << 19) - 1), 30);
  EXPECT_EQ(symbol_of_rank(1u << 19), kStepEscape);
}

}  // namespace
}  // namespace skerry
