#include "skerry/patch/gap_model.h"

#include <cmath>
#include <random>

#include "skerry/patch/format.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

void ExpectUsable(uint64_t units, uint64_t changed) {
  const GapModel model = GapModelFor(units, changed);
  ASSERT_NE(model.table, nullptr);
  uint32_t sum = 0;
  for (int s = 0; s < kSymbols; ++s) {
    ASSERT_GE(model.table->frequency(s), 1u) << units << " " << changed << " symbol " << s;
    sum += model.table->frequency(s);
  }
  ASSERT_EQ(sum, kProbabilityOne);
  ASSERT_GE(model.low_bits, 0);
  ASSERT_LE(model.low_bits, 20) << units << " " << changed;
}

// The expected length of a gap's code in bits, against the entropy of a geometric distribution of that density.
double Excess(uint64_t units, uint64_t changed) {
  const GapModel model = GapModelFor(units, changed);
  const double p = static_cast<double>(changed) / static_cast<double>(units);
  if (p == 1) return 0;
  const double entropy = (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) / p;
  const double step = std::pow(1 - p, std::exp2(model.low_bits));  // from a quotient to the next
  const auto cost = [&](int symbol) { return kProbabilityBits - std::log2(model.table->frequency(symbol)); };
  double symbols = 0, reached = 1;
  for (int q = 0; q < 31; ++q) {
    symbols += reached * (1 - step) * cost(q);
    reached *= step;
  }
  // After an escape the rest of the quotient is coded the same way again.
  symbols = (symbols + reached * cost(31)) / (1 - reached);
  return model.low_bits + symbols - entropy;
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

std::vector<int> FrequenciesOf(const GapModel& model) {
  return {model.table->frequencies().begin(), model.table->frequencies().end()};
}

// Expected values: an independent calculation from the text of docs/patch-format.md.
TEST(GapModel, FollowsTheFormatDocument) {
  // Mean 1: e = 0, f = 0, ratio 7282. (The table has a last entry for what can't occur.)
  EXPECT_EQ(GapModelFor(65536, 65536).low_bits, 0);
  EXPECT_THAT(FrequenciesOf(GapModelFor(65536, 65536)),
              ::testing::ElementsAreArray({3616, 402, 45, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                           1,    1,   1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  // Mean 3.5 … 4: e = 1, f = 3, ratio 48060.
  EXPECT_EQ(GapModelFor(1000, 270).low_bits, 0);
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

TEST(GapModel, CostsLittleMoreThanTheEntropyOfItsDensity) {
  for (const uint64_t changed : {1u, 40u, 180u, 600u, 2600u, 4096u, 10'000u, 20'000u, 30'000u, 45'000u, 60'000u}) {
    EXPECT_LT(Excess(65536, changed), 0.08) << changed << " of 65536";
    EXPECT_GE(Excess(65536, changed), 0) << changed << " of 65536: no code beats the entropy";
  }
}

}  // namespace
}  // namespace skerry
