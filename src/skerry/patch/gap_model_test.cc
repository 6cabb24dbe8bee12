#include "skerry/patch/gap_model.h"

#include <cmath>
#include <random>

#include "skerry/patch/format.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

void ExpectUsable(uint64_t members, uint64_t changed) {
  const GapModel model = GapModelFor(members, changed);
  ASSERT_NE(model.table, nullptr);
  ASSERT_LT(model.escape, uint32_t{kSymbols});
  uint32_t sum = 0;
  for (uint32_t s = 0; s < kSymbols; ++s) {
    const bool codable = s <= (changed == members ? 0 : model.escape);
    ASSERT_EQ(model.table->frequency(s) >= 1, codable) << members << " " << changed << " symbol " << s;
    sum += model.table->frequency(s);
  }
  ASSERT_EQ(sum, kProbabilityOne);
  ASSERT_GE(model.low_bits, 0);
  ASSERT_LE(model.low_bits, 20) << members << " " << changed;
}

// The expected length of a gap's code in bits, and the entropy of a geometric distribution of that density.
struct Cost {
  double bits, entropy;
};
Cost CostOf(uint64_t members, uint64_t changed) {
  const GapModel model = GapModelFor(members, changed);
  const double p = static_cast<double>(changed) / static_cast<double>(members);
  if (p == 1) return {kProbabilityBits - std::log2(model.table->frequency(0)), 0};
  const double entropy = (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) / p;
  const double step = std::pow(1 - p, std::exp2(model.low_bits));  // from a quotient to the next
  const auto cost = [&](uint32_t symbol) { return kProbabilityBits - std::log2(model.table->frequency(symbol)); };
  double symbols = 0, reached = 1;
  for (uint32_t q = 0; q < model.escape; ++q) {
    symbols += reached * (1 - step) * cost(q);
    reached *= step;
  }
  // After an escape the rest of the quotient is coded the same way again.
  symbols = (symbols + reached * cost(model.escape)) / (1 - reached);
  return {model.low_bits + symbols, entropy};
}

TEST(GapModel, IsUsableForEveryCountOfChangesInSmallBlocks) {
  for (uint64_t units = 1; units <= 300; ++units) {
    for (uint64_t changed = 1; changed <= units; ++changed) ExpectUsable(units, changed);
  }
}

TEST(GapModel, IsUsableForCountsSampledOverAllBlockSizes) {
  std::mt19937_64 random(1);
  const uint64_t most = uint64_t{kMaxCellsPerBlock} * kCellUnits;
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t units = 1 + random() % (uint64_t{1} << random() % 23);
    ExpectUsable(std::min(units, most), 1 + random() % std::min(units, most));
  }
  for (uint64_t changed = 1; changed <= most; changed *= 2) {
    ExpectUsable(most, changed);
    ExpectUsable(most, changed + 1 <= most ? changed + 1 : changed);
    ExpectUsable(most, changed - (changed > 1));
  }
}

// Without the zeros behind the last symbol that can be coded.
std::vector<int> FrequenciesOf(const GapModel& model) {
  std::vector<int> frequencies(model.table->frequencies().begin(), model.table->frequencies().end());
  while (frequencies.back() == 0) frequencies.pop_back();
  return frequencies;
}

// Expected values: an independent calculation from the text of docs/patch-format.md.
TEST(GapModel, FollowsTheFormatDocumentWhereAtMostHalfChange) {
  // Mean 2: e = 1, f = 0, ratio 36409.
  EXPECT_THAT(FrequenciesOf(GapModelFor(1000, 500)),
              ::testing::ElementsAreArray({1814, 1004, 558, 310, 173, 96, 54, 30, 17, 10, 6, 3, 2, 1, 1, 1,
                                           1,    1,    1,   1,   1,   1,  1,  1,  1,  1,  1, 1, 1, 1, 1, 1}));
  // Mean 3.5 … 4: e = 1, f = 3, ratio 48060.
  EXPECT_EQ(GapModelFor(1000, 270).low_bits, 0);
  EXPECT_EQ(GapModelFor(1000, 270).escape, 31u);
  EXPECT_THAT(FrequenciesOf(GapModelFor(1000, 270)),
              ::testing::ElementsAreArray({1099, 795, 583, 428, 314, 230, 169, 124, 91, 67, 49, 36, 27, 20, 15, 11,
                                           8,    6,   5,   3,   3,   2,   2,   1,   1,  1,  1,  1,  1,  1,  1,  1}));
  // Mean 1024 = 2^10: b = 8; every e from 5 on has the same ratios, 52477 for f = 0.
  const std::vector<int> limit = {826, 649, 520, 416, 333, 267, 214, 171, 137, 110, 88, 71, 57, 46, 37, 29,
                                  24,  19,  15,  12,  10,  8,   7,   5,   4,   4,   3,  3,  2,  2,  2,  5};
  EXPECT_EQ(GapModelFor(65536, 64).low_bits, 8);
  EXPECT_EQ(FrequenciesOf(GapModelFor(65536, 64)), limit);
  EXPECT_EQ(GapModelFor(1 << 22, 1).low_bits, 20);
  EXPECT_EQ(FrequenciesOf(GapModelFor(1 << 22, 1)), limit);
  // Mean 8: the first with a raw bit.
  EXPECT_EQ(GapModelFor(65536, 8192).low_bits, 1);
  EXPECT_EQ(GapModelFor(65536, 8193).low_bits, 0);
}

TEST(GapModel, FollowsTheFormatDocumentWhereMoreThanHalfChange) {
  // The share of those that do not change lies in [2^-(e+1), 2^-e): e = 1, f = 3, ratio 30720.
  EXPECT_THAT(FrequenciesOf(GapModelFor(100, 51)), ::testing::ElementsAre(2175, 1019, 478, 224, 105, 50, 24, 21));
  // e = 1, f = 0, ratio 18432; e = 3, f = 2, ratio 6656; e = 9, f = 0, ratio 72.
  EXPECT_THAT(FrequenciesOf(GapModelFor(1000, 700)), ::testing::ElementsAre(2942, 827, 233, 66, 19, 6, 2, 1));
  EXPECT_THAT(FrequenciesOf(GapModelFor(1000, 900)), ::testing::ElementsAre(3676, 374, 38, 4, 1, 1, 1, 1));
  EXPECT_THAT(FrequenciesOf(GapModelFor(1000, 999)), ::testing::ElementsAre(4085, 5, 1, 1, 1, 1, 1, 1));
  // e = 11, f = 0 at exactly 2^-12; and the last row, which stands for all smaller shares.
  EXPECT_THAT(FrequenciesOf(GapModelFor(65536, 65520)), ::testing::ElementsAre(4088, 2, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(FrequenciesOf(GapModelFor(65536, 65535)), ::testing::ElementsAre(4089, 1, 1, 1, 1, 1, 1, 1));
  for (const uint64_t changed : {51u, 75u, 99u}) {
    EXPECT_EQ(GapModelFor(100, changed).escape, 7u);
    EXPECT_EQ(GapModelFor(100, changed).low_bits, 0);
  }
}

TEST(GapModel, WhereEveryMemberChangesNothingIsSaid) {
  for (const uint64_t members : {1u, 2u, 64u, 65536u, 1u << 22}) {
    EXPECT_THAT(FrequenciesOf(GapModelFor(members, members)), ::testing::ElementsAre(4096));
    EXPECT_EQ(GapModelFor(members, members).low_bits, 0);
  }
}

TEST(GapModel, CostsLittleMoreThanTheEntropyOfItsDensity) {
  for (const double density : {0.00002, 0.0006, 0.003, 0.01, 0.04, 0.0625, 0.15, 0.3,  0.45,  0.5,
                               0.51,    0.6,    0.7,   0.8,  0.9,  0.95,   0.98, 0.99, 0.995, 0.999}) {
    const auto changed = static_cast<uint64_t>(density * 65536);
    const Cost cost = CostOf(65536, changed);
    EXPECT_LT(cost.bits, cost.entropy + std::min(0.08, 0.1 * cost.entropy + 0.004)) << density;
    EXPECT_GE(cost.bits, cost.entropy) << density << ": no code beats the entropy";
  }
  EXPECT_EQ(CostOf(65536, 65536).bits, 0);
}

}  // namespace
}  // namespace skerry
