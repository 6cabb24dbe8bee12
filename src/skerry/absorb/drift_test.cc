#include "skerry/absorb/drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::Each;
using ::testing::FloatNear;

constexpr size_t kElements = 1 << 15;

std::vector<double> MovesAt(const Training& training, uint64_t step) {
  const std::vector<StepRange> range = {{step - 1, step}};
  const Move move = Must(SimulateDrift(training, range, kElements)).front();
  std::vector<double> moved;
  for (size_t i = 0; i < move.before.size(); ++i) moved.push_back(move.after[i] - move.before[i]);
  return moved;
}

double MeanLength(const std::vector<double>& moves) {
  double sum = 0;
  for (const double move : moves) sum += std::abs(move);
  return sum / static_cast<double>(moves.size());
}

TEST(DriftTest, TheFirstStepIsTheLearningRateWhateverTheGradients) {
  for (const double signal : {0.0, 1.0, 5.0}) {
    for (const double move : MovesAt({.signal = signal}, 1)) EXPECT_NEAR(std::abs(move), 1, 1e-6);
  }
}

TEST(DriftTest, UncorrelatedGradientsAverageOut) {
  // The mean of k gradients with weights beta1^i has the variance (1-b)/(1+b) * (1+b^k)/(1-b^k) of one; a normal
  // variable's mean length is sqrt(2/pi) of its deviation. Adam's squares are themselves a mean over k steps.
  for (const uint64_t step : {20, 40, 200}) {
    const double decayed = std::pow(0.9, static_cast<double>(step));
    const double deviation = std::sqrt(0.1 / 1.9 * (1 + decayed) / (1 - decayed));
    EXPECT_NEAR(MeanLength(MovesAt({}, step)), std::sqrt(2 / M_PI) * deviation, 0.04 * deviation) << step;
  }
  EXPECT_NEAR(MeanLength(MovesAt({}, 1000)), 0.183, 0.004);
}

TEST(DriftTest, WhatIsTheSameAtEveryStepIsFollowedAtFullSpeed) {
  const std::vector<StepRange> range = {{10, 30}};
  const Move move = Must(SimulateDrift({.signal = 1e4}, range, 1000)).front();
  size_t straight = 0;
  for (size_t i = 0; i < move.after.size(); ++i) {
    straight += std::abs(std::abs(move.before[i]) - 10) < 0.1 && std::abs(std::abs(move.after[i]) - 30) < 0.3 ? 1 : 0;
  }
  EXPECT_GT(straight, 990u);  // but for the few whose signal happens to be near 0
}

TEST(DriftTest, MoreSignalMovesFurther) {
  double before = 0;
  for (const double signal : {0.0, 0.3, 1.0, 3.0}) {
    const double length = MeanLength(MovesAt({.signal = signal}, 30));
    EXPECT_GT(length, before * 1.1);
    before = length;
  }
}

TEST(DriftTest, WarmUpRisesLinearly) {
  EXPECT_NEAR(MeanLength(MovesAt({.warmup = 10}, 1)), 0.1, 1e-6);
  EXPECT_NEAR(MeanLength(MovesAt({.warmup = 10}, 5)), 0.5 * MeanLength(MovesAt({}, 5)), 1e-6);
  EXPECT_NEAR(MeanLength(MovesAt({.warmup = 10}, 10)), MeanLength(MovesAt({}, 10)), 1e-6);
}

TEST(DriftTest, GradientsFarBelowEpsilonMoveInProportion) {
  EXPECT_NEAR(MeanLength(MovesAt({.size = 1e-3}, 1)), 1e-3 * std::sqrt(2 / M_PI), 2e-5);
  EXPECT_NEAR(MeanLength(MovesAt({.size = 1e6}, 1)), 1, 1e-3);
  // As many are a hundred times above epsilon as are below it: half of them are held up.
  EXPECT_NEAR(MeanLength(MovesAt({.size = 1, .spread = 50}, 1)), 0.5, 0.02);
}

TEST(DriftTest, IsTheSameEachTimeAndForEachChoiceOfRanges) {
  const std::vector<StepRange> few = {{4, 5}}, many = {{0, 1}, {0, 5}, {4, 5}, {5, 7}};
  const std::vector<Move> moves = Must(SimulateDrift({.signal = 1}, many, 100));
  const Move alone = Must(SimulateDrift({.signal = 1}, few, 100)).front();
  EXPECT_EQ(alone.after, moves[2].after);
  EXPECT_EQ(alone.before, moves[2].before);
  EXPECT_EQ(moves[1].after, moves[3].before);
  EXPECT_THAT(moves[0].before, Each(FloatNear(0, 0)));
}

TEST(DriftTest, RefusesWhatIsNoTraining) {
  const std::vector<StepRange> good = {{0, 1}}, still = {{3, 3}}, far = {{0, kMostSteps + 1}};
  EXPECT_EQ(SimulateDrift({.lr = 0}, good).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({.lr = NAN}, good).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({.beta1 = 1}, good).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({.beta2 = -0.1}, good).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({.signal = -1}, good).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({.size = 0}, good).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({}, still).error().code, Code::kInvalid);
  EXPECT_EQ(SimulateDrift({}, far).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace skerry
