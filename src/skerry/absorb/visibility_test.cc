#include "skerry/absorb/visibility.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "skerry/absorb/served_view.h"
#include "skerry/diff/narrow.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

Move SimulatedMove(uint64_t from, uint64_t to, double signal) {
  const std::vector<StepRange> range = {{from, to}};
  return Must(SimulateDrift({.signal = signal}, range, 1 << 12)).front();
}

Chances ChancesOf(const Move& move, double lr, const Cell& cell) { return MoveChances(move, lr).Of(cell); }

uint16_t Bf16(double value) {
  const auto single = static_cast<float>(value);
  uint16_t bits;
  NarrowF32(reinterpret_cast<const std::byte*>(&single), 1, DType::kBF16, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

// Bf16 rounds to F32 first, which must not be what is seen: the weights of these tests are such that F32 is far finer
// than their steps.

TEST(VisibilityTest, AnywhereIsWhatRoundingDoesToUniformMasters) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0x1p-6, 0x1p-5);  // one exponent; ULP 2^-13
  for (const double lr : {1e-6, 1e-5, 1e-4, 1e-3}) {
    const Move move = SimulatedMove(4, 5, 0.5);
    double changed = 0, all = 0;
    for (int round = 0; round < 40; ++round) {
      for (size_t i = 0; i < move.after.size(); ++i) {
        const double master = uniform(random);
        changed += Bf16(master + lr * move.before[i]) != Bf16(master + lr * move.after[i]) ? 1 : 0;
        all += 1;
      }
    }
    const double shows = ChancesOf(move, lr, {.width = 0x1p-13, .below = 0x1p-13}).shows;
    EXPECT_NEAR(changed / all, shows, 0.02 * shows + 3 * std::sqrt(shows / all)) << lr;
  }
}

TEST(VisibilityTest, FromTheCentreIsWhatRoundingDoesToServedNumbers) {
  for (const double weight : {1.25 * 0x1p-9, -1.25 * 0x1p-9, 0x1p-9, -0x1p-9}) {
    const bool power = std::abs(weight) == 0x1p-9;
    const Cell cell{.width = 0x1p-16, .below = power ? 0x1p-17 : 0x1p-16, .start = Cell::Start::kCentre};
    for (const uint64_t step : {1, 8, 20}) {
      const Move move = SimulatedMove(step - 1, step, 1);
      size_t changed = 0;
      for (size_t i = 0; i < move.after.size(); ++i) {
        // Cell's drift is positive away from 0.
        const double sign = weight < 0 ? -1 : 1;
        changed += Bf16(weight + sign * 1e-6 * move.before[i]) != Bf16(weight + sign * 1e-6 * move.after[i]) ? 1 : 0;
      }
      EXPECT_NEAR(static_cast<double>(changed) / static_cast<double>(move.after.size()),
                  ChancesOf(move, 1e-6, cell).shows, 1e-3)
          << weight << " step " << step;
    }
  }
}

TEST(VisibilityTest, NothingShowsBeforeTheDriftHasComeToTheBoundary) {
  const Cell cell{.width = 20e-6, .below = 20e-6, .start = Cell::Start::kCentre};
  EXPECT_EQ(ChancesOf(SimulatedMove(8, 9, 1e6), 1e-6, cell).shows, 0);
  EXPECT_GT(ChancesOf(SimulatedMove(9, 11, 1e6), 1e-6, cell).shows, 0.99);
}

TEST(VisibilityTest, OnABoundaryIsWhatRoundingDoesToAllNumbersOfTheFinerGrid) {
  // E2M1 with scale 1 between 1 and 2: boundaries 1.25 and 1.75, to the even code. BF16's grid has 2^-7.
  const auto code = [](double weight) { return weight <= 1.25 ? 1.0 : weight < 1.75 ? 1.5 : 2.0; };
  const Cell cell{.width = 0.5, .below = 0.5, .grid = 0x1p-7, .start = Cell::Start::kBoundary};
  for (const double lr : {1e-6, 3e-3}) {
    for (const uint64_t step : {1, 2, 10}) {
      const Move move = SimulatedMove(step - 1, step, 1);
      double changed = 0, all = 0;
      for (size_t i = 0; i < move.after.size(); ++i) {
        for (int grid = 128; grid < 256; ++grid) {
          const double weight = grid * 0x1p-7;
          changed += code(weight + lr * move.before[i]) != code(weight + lr * move.after[i]) ? 1 : 0;
          all += 1;
        }
      }
      EXPECT_NEAR(changed / all, ChancesOf(move, lr, cell).shows, 0.05 * changed / all) << lr << " step " << step;
    }
  }
}

TEST(VisibilityTest, RoundedFirstIsWhatCodesOfBf16NumbersDo) {
  const auto code = [](double weight) {
    const auto served = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(Bf16(weight)) << 16));
    return served <= 1.25 ? 1.0 : served < 1.75 ? 1.5 : 2.0;
  };
  const Cell cell{.width = 0.5, .below = 0.5, .grid = 0x1p-7, .start = Cell::Start::kRounded};
  for (const uint64_t step : {1, 2, 10}) {
    const Move move = SimulatedMove(step - 1, step, 1);
    EXPECT_EQ(ChancesOf(move, 1e-6, cell).shows, 0) << "step " << step;
    double changed = 0, all = 0;
    for (size_t i = 0; i < move.after.size(); ++i) {
      for (int grid = 132; grid < 252; ++grid) {  // not where the grid is finer or coarser
        const double weight = grid * 0x1p-7;
        changed += code(weight + 3e-3 * move.before[i]) != code(weight + 3e-3 * move.after[i]) ? 1 : 0;
      }
      all += 128;
    }
    EXPECT_NEAR(changed / all, ChancesOf(move, 3e-3, cell).shows, 0.05 * changed / all) << "step " << step;
  }
}

TEST(VisibilityTest, AChangeTakesABitForItsDirectionAndMoreWhereItIsFurther) {
  const Move move = SimulatedMove(9, 10, 0);
  const Chances rare = ChancesOf(move, 1e-6, {.width = 1, .below = 1});
  EXPECT_NEAR(rare.value_bits, 1, 1e-9);
  const Chances often = ChancesOf(move, 1e-6, {.width = 1e-7, .below = 1e-7});
  EXPECT_GT(often.value_bits, 1.5);
  EXPECT_LE(often.value_bits, 1 + std::log2(3));
  // The same cell, and others of the same grid, may be asked for again.
  MoveChances chances(move, 1e-6);
  const Cell one{.width = 1e-5, .below = 1e-5, .grid = 1e-7, .start = Cell::Start::kRounded};
  const Cell half{.width = 2e-5, .below = 2e-5, .grid = 1e-7, .start = Cell::Start::kRounded};
  EXPECT_NEAR(chances.Of(one).shows, 2 * chances.Of(half).shows, 1e-9);
  EXPECT_EQ(chances.Of(one).shows, ChancesOf(move, 1e-6, one).shows);
  EXPECT_EQ(ChancesOf(move, 1e-6, {.width = 1e9, .below = 1e9, .start = Cell::Start::kCentre}).value_bits, 0);
}

}  // namespace
}  // namespace skerry
