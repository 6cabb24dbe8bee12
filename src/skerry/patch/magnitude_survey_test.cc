#include "skerry/patch/magnitude_survey.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint64_t> BoundsOf(const MagnitudeModel& model) {
  std::vector<uint64_t> bounds;
  for (int c = 1; c < model.classes().count(); ++c) bounds.push_back(model.classes().lowest(c));
  return bounds;
}

size_t TablesOf(const MagnitudeModel& model) {
  std::set<const SymbolTable*> tables;
  for (int c = 0; c < model.classes().count(); ++c) tables.insert(&model.values(c));
  return tables.size();
}

// A sample of bfloat16 elements with exponents from `first` on: `members` of each, in mixed order, of which the share
// chance(exponent) changes, with steps from token(exponent).
MagnitudeSurvey SurveyOf(int first, int exponents, size_t members, const std::function<double(int)>& chance,
                         const std::function<StepToken(int)>& token) {
  MagnitudeSurvey survey(*MagnitudeViewOf(DType::kBF16));
  Bytes before;
  ByteWriter writer(before);
  for (size_t i = 0; i < members; ++i) {
    for (int e = first; e < first + exponents; ++e) {
      const auto bits = static_cast<uint16_t>(e << 7 | (i % 128) | (i % 2) << 15);
      writer.Int<uint16_t>(bits);
      // Evenly spread, exactly that share.
      const double p = chance(e), at = static_cast<double>(i);
      if (std::floor((at + 1) * p) > std::floor(at * p)) survey.AddChange(bits, token(e));
    }
  }
  survey.AddMembers(before);
  return survey;
}

StepToken Up(int) { return {.symbol = 0}; }
double Halving(int exponent) { return std::exp2(112 - exponent); }  // 1/2 at 113, 1/4 at 114, …

TEST(MagnitudeSurvey, FindsAClassForEachExponentWhereTheChanceHalves) {
  const MagnitudeSurvey survey = SurveyOf(113, 5, 20'000, Halving, Up);
  EXPECT_THAT(BoundsOf(survey.Choose(100)), ElementsAre(114 << 7, 115 << 7, 116 << 7, 117 << 7));
}

TEST(MagnitudeSurvey, ClassesBeginWhereTheChanceChanges) {
  const MagnitudeSurvey survey =
      SurveyOf(100, 10, 5000, [](int exponent) { return exponent < 103   ? 0.6
                                                        : exponent < 108 ? 0.1
                                                                         : 0.01; }, Up);
  EXPECT_THAT(BoundsOf(survey.Choose(20)), ElementsAre(103 << 7, 108 << 7));
}

TEST(MagnitudeSurvey, WhereNothingIsGainedThereIsOneClass) {
  EXPECT_THAT(BoundsOf(SurveyOf(100, 10, 5000, [](int) { return 0.05; }, Up).Choose(20)), IsEmpty());
  // Different chances, but so few changes that a class costs more than it saves.
  EXPECT_THAT(BoundsOf(SurveyOf(113, 6, 8, Halving, Up).Choose(1)), IsEmpty());
}

TEST(MagnitudeSurvey, ALargerModelIsWorthMoreClasses) {
  const MagnitudeSurvey survey = SurveyOf(113, 8, 256, Halving, Up);
  const int small = survey.Choose(1).classes().count(), large = survey.Choose(1000).classes().count();
  EXPECT_LT(small, large);
  EXPECT_EQ(small, 3) << "256 elements of each exponent";
}

TEST(MagnitudeSurvey, ThereAreNeverMoreClassesThanPay) {
  const MagnitudeSurvey survey = SurveyOf(90, 30, 4000, [](int e) { return e % 2 == 0 ? 0.5 : 0.001; }, Up);
  const MagnitudeModel model = survey.Choose(1000);
  EXPECT_GE(model.classes().count(), 8);
  EXPECT_LE(model.classes().count(), kMaxClasses) << "although there are 30 reasons";
  EXPECT_TRUE(MagnitudeClasses::AreValid(model.classes().view(), BoundsOf(model)));
}

TEST(MagnitudeSurvey, ClassesWithTheSameStepsShareATable) {
  EXPECT_EQ(TablesOf(SurveyOf(113, 5, 20'000, Halving, Up).Choose(100)), 1u);
  const auto steps = [](int exponent) { return StepToken{.symbol = static_cast<uint8_t>(exponent < 116 ? 0 : 5)}; };
  const MagnitudeModel model = SurveyOf(113, 5, 20'000, Halving, steps).Choose(100);
  ASSERT_EQ(model.classes().count(), 5);
  EXPECT_EQ(TablesOf(model), 2u);
  EXPECT_EQ(&model.values(0), &model.values(2));
  EXPECT_NE(&model.values(2), &model.values(3));
  EXPECT_EQ(&model.values(3), &model.values(4));
  EXPECT_GT(model.values(0).frequency(0), 4000u);
  EXPECT_GT(model.values(3).frequency(5), 4000u);
  for (int c = 0; c < 5; ++c) EXPECT_GE(model.values(c).frequency(kStepEscape), 1u) << "what the sample missed";
}

TEST(MagnitudeSurvey, StepsAloneAreAReasonForClasses) {
  const MagnitudeModel model =
      SurveyOf(
          100, 4, 5000, [](int) { return 0.2; },
          [](int exponent) { return StepToken{.symbol = static_cast<uint8_t>(exponent < 102 ? 0 : 1)}; })
          .Choose(20);
  EXPECT_THAT(BoundsOf(model), ElementsAre(102 << 7));
  EXPECT_EQ(TablesOf(model), 2u);
}

TEST(MagnitudeSurvey, AnEmptySampleGivesAClassThatCanCodeEverything) {
  for (const DType dtype : {DType::kBF16, DType::kF64, DType::kF4, DType::kF8E8M0}) {
    const MagnitudeModel model = MagnitudeSurvey(*MagnitudeViewOf(dtype)).Choose(1);
    EXPECT_EQ(model.classes().count(), 1);
    EXPECT_GE(model.values(0).frequency(kStepEscape), 1u);
  }
}

TEST(MagnitudeSurvey, ManyExponentsAreMergedWhereLeastHappens) {
  // All 2048 of float64; the changes are in two neighbouring ones.
  MagnitudeSurvey survey(*MagnitudeViewOf(DType::kF64));
  Bytes before;
  ByteWriter writer(before);
  for (int i = 0; i < 4; ++i) {
    for (uint64_t exponent = 0; exponent < 2048; ++exponent) {
      for (int n = exponent == 1020 || exponent == 1021 ? 200 : 1; n > 0; --n) writer.Int<uint64_t>(exponent << 52);
    }
  }
  survey.AddMembers(before);
  for (int i = 0; i < 600; ++i) survey.AddChange(uint64_t{1020} << 52 | 77, {.symbol = 0});
  for (int i = 0; i < 150; ++i) survey.AddChange(uint64_t{1021} << 52 | uint64_t{1} << 63, {.symbol = 0});
  EXPECT_THAT(BoundsOf(survey.Choose(50)),
              ElementsAre(uint64_t{1020} << 52, uint64_t{1021} << 52, uint64_t{1022} << 52));
}

TEST(MagnitudeSurvey, ScalesOf8BitsAreTheirOwnExponents) {
  MagnitudeSurvey survey(*MagnitudeViewOf(DType::kF8E8M0));
  Bytes before;
  for (int i = 0; i < 1000 * 256; ++i) before.push_back(static_cast<std::byte>(i));
  Random random(2);
  std::shuffle(before.begin(), before.end(), random);
  survey.AddMembers(before);
  // A half of those from 200 on change, but 255, which is no number, never does.
  for (int i = 0; i < 55 * 500; ++i) survey.AddChange(200 + static_cast<uint64_t>(i % 55), {.symbol = 1});
  EXPECT_THAT(BoundsOf(survey.Choose(50)), ElementsAre(200, 255));
}

TEST(MagnitudeSurvey, CodesOf4BitsAreCountedInBothHalves) {
  MagnitudeSurvey survey(*MagnitudeViewOf(DType::kF4));
  Bytes before;
  for (int i = 0; i < 8000; ++i) before.push_back(static_cast<std::byte>(i % 16 | (i + 7) % 16 << 4));
  survey.AddMembers(before);
  // A half of the codes 2 and 3, whatever their sign, change.
  for (int i = 0; i < 2000; ++i) survey.AddChange(static_cast<uint64_t>(2 + i % 2) | (i & 4) << 1, {.symbol = 1});
  EXPECT_THAT(BoundsOf(survey.Choose(20)), ElementsAre(2, 4));
}

// A long run is sampled: the classes are the same as from all of it.
TEST(MagnitudeSurvey, LongRunsAreSampledFairly) {
  Random random(1);
  std::vector<uint16_t> bits(100'000);
  for (uint16_t& one : bits) one = static_cast<uint16_t>((113 + random() % 5) << 7 | (random() % 128));
  const auto bytes = std::as_bytes(std::span(bits));
  MagnitudeSurvey whole(*MagnitudeViewOf(DType::kBF16)), pieces = whole;
  whole.AddMembers(bytes);
  for (size_t at = 0; at < bytes.size(); at += 1000) pieces.AddMembers(bytes.subspan(at, 1000));
  for (const uint16_t one : bits) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 >= Halving(one >> 7)) continue;
    whole.AddChange(one, {.symbol = 0});
    pieces.AddChange(one, {.symbol = 0});
  }
  EXPECT_EQ(BoundsOf(whole.Choose(100)), BoundsOf(pieces.Choose(100)));
  EXPECT_EQ(whole.Choose(100).classes().count(), 5);
}

}  // namespace
}  // namespace skerry
