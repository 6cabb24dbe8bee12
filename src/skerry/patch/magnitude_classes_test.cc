#include "skerry/patch/magnitude_classes.h"

#include "tests/testing/results.h"

namespace skerry {
namespace {

TEST(MagnitudeView, IsWhatEveryDtypeWithAnExponentHas) {
  const std::vector<std::tuple<DType, int, uint64_t, int>> expected = {
      {DType::kF16, 16, 0x7FFF, 10},
      {DType::kBF16, 16, 0x7FFF, 7},
      {DType::kF32, 32, 0x7FFF'FFFF, 23},
      {DType::kF64, 64, 0x7FFF'FFFF'FFFF'FFFF, 52},
      {DType::kF8E4M3, 8, 0x7F, 3},
      {DType::kF8E4M3FNUZ, 8, 0x7F, 3},
      {DType::kF8E5M2, 8, 0x7F, 2},
      {DType::kF8E5M2FNUZ, 8, 0x7F, 2},
      {DType::kF8E8M0, 8, 0xFF, 0},  // no sign
      {DType::kF4, 4, 0x7, 0},
      {DType::kU8, 4, 0xF, 0},  // two codes of any meaning
  };
  int with = 0;
  for (int code = 0; code < kDTypeCount; ++code) with += MagnitudeViewOf(static_cast<DType>(code)).has_value();
  EXPECT_EQ(with, static_cast<int>(expected.size())) << "no other integers, no pairs, no codes of 6 bits";
  for (const auto& [dtype, bits, mask, exponent_bit] : expected) {
    const auto view = MagnitudeViewOf(dtype);
    ASSERT_TRUE(view) << DTypeName(dtype);
    EXPECT_EQ(view->bits, bits) << DTypeName(dtype);
    EXPECT_EQ(view->mask, mask) << DTypeName(dtype);
    EXPECT_EQ(view->exponent_bit, exponent_bit) << DTypeName(dtype);
    EXPECT_EQ(view->has_sign(), dtype != DType::kF8E8M0 && dtype != DType::kU8) << DTypeName(dtype);
  }
}

TEST(MagnitudeClasses, AnElementIsInTheLastClassThatBeginsAtOrBelowItsMagnitude) {
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kBF16), {0x0001, 0x3F80, 0x7FFF});
  EXPECT_EQ(classes.count(), 4);
  EXPECT_EQ(classes.lowest(0), 0u);
  EXPECT_EQ(classes.lowest(2), 0x3F80u);
  EXPECT_EQ(classes.ClassOf(0x0000), 0);
  EXPECT_EQ(classes.ClassOf(0x8000), 0) << "the sign is no magnitude";
  EXPECT_EQ(classes.ClassOf(0x0001), 1);
  EXPECT_EQ(classes.ClassOf(0x3F7F), 1);
  EXPECT_EQ(classes.ClassOf(0xBF80), 2);
  EXPECT_EQ(classes.ClassOf(0x7FFE), 2);
  EXPECT_EQ(classes.ClassOf(0xFFFF), 3) << "a NaN is a large magnitude";
}

TEST(MagnitudeClasses, ThereIsAlwaysOne) {
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kF64), {});
  EXPECT_EQ(classes.count(), 1);
  EXPECT_EQ(classes.ClassOf(~uint64_t{0}), 0);
}

TEST(MagnitudeClasses, ScalesOf8BitsHaveNoSign) {
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kF8E8M0), {0x80, 0xFF});
  EXPECT_EQ(classes.ClassOf(0x7F), 0);
  EXPECT_EQ(classes.ClassOf(0x80), 1);
  EXPECT_EQ(classes.ClassOf(0xFE), 1);
  EXPECT_EQ(classes.ClassOf(0xFF), 2);
}

TEST(MagnitudeClasses, BoundsRiseFromAbove0ToTheLargestMagnitude) {
  const MagnitudeView f8 = *MagnitudeViewOf(DType::kF8E4M3), f64 = *MagnitudeViewOf(DType::kF64);
  EXPECT_TRUE(MagnitudeClasses::AreValid(f8, {}));
  EXPECT_TRUE(MagnitudeClasses::AreValid(f8, {1, 2, 0x7F}));
  EXPECT_FALSE(MagnitudeClasses::AreValid(f8, {0}));
  EXPECT_FALSE(MagnitudeClasses::AreValid(f8, {0x80}));
  EXPECT_FALSE(MagnitudeClasses::AreValid(f8, {5, 5}));
  EXPECT_FALSE(MagnitudeClasses::AreValid(f8, {5, 4}));
  EXPECT_TRUE(MagnitudeClasses::AreValid(f64, {f64.mask}));
  EXPECT_FALSE(MagnitudeClasses::AreValid(f64, {f64.mask + 1}));
  std::vector<uint64_t> lowest;
  for (uint64_t bound = 1; bound < kMaxClasses; ++bound) lowest.push_back(bound);
  EXPECT_TRUE(MagnitudeClasses::AreValid(f64, lowest));
  lowest.push_back(kMaxClasses);
  EXPECT_FALSE(MagnitudeClasses::AreValid(f64, lowest)) << "17 classes";
}

}  // namespace
}  // namespace skerry
