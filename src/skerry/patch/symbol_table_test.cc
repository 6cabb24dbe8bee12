#include "skerry/patch/symbol_table.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

uint32_t Sum(const SymbolTable::Frequencies& frequencies) {
  return std::accumulate(frequencies.begin(), frequencies.end(), 0u);
}

Bytes TableBytes(uint8_t symbols, const std::vector<uint64_t>& frequencies) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.Int<uint8_t>(symbols);
  for (const uint64_t frequency : frequencies) writer.Varint(frequency);
  return bytes;
}

Result<SymbolTable> Parsed(const Bytes& bytes) {
  ByteReader reader(bytes);
  return SymbolTable::Parse(reader);
}

RC_GTEST_PROP(SymbolTable, NormalisedFrequenciesSumToOneAndKeepExactlyWhatWasCounted,
              (const std::vector<uint32_t>& some)) {
  std::array<uint64_t, kSymbols> counts{};
  for (size_t i = 0; i < std::min<size_t>(kSymbols, some.size()); ++i) counts[i] = some[i];
  RC_PRE(std::any_of(counts.begin(), counts.end(), [](uint64_t count) { return count != 0; }));
  const auto frequencies = SymbolTable::Normalise(counts);
  RC_ASSERT(Sum(frequencies) == kProbabilityOne);
  for (size_t s = 0; s < kSymbols; ++s) RC_ASSERT((frequencies[s] != 0) == (counts[s] != 0));
}

RC_GTEST_PROP(SymbolTable, ASamplesTableCanCodeTheLikeliestStepsAndTheEscape, (const std::vector<uint32_t>& some)) {
  std::array<uint64_t, kSymbols> counts{};
  for (size_t i = 0; i < std::min<size_t>(kSymbols, some.size()); ++i) counts[i] = some[i];
  const auto frequencies = SymbolTable::NormaliseSample(counts);
  RC_ASSERT(Sum(frequencies) == kProbabilityOne);
  for (size_t s = 0; s < kSymbols; ++s) {
    RC_ASSERT((frequencies[s] != 0) == (counts[s] != 0 || s < 2 || s == kSymbols - 1));
  }
}

TEST(SymbolTable, ASymbolThatTheSampleMissedWeighsLittle) {
  std::array<uint64_t, kSymbols> counts{};
  counts[0] = 1000;
  counts[5] = 1000;
  const auto frequencies = SymbolTable::NormaliseSample(counts);
  // Weights 64001, 1, 64000 and 1; 4092 are shared out.
  EXPECT_EQ(frequencies[1], 1);
  EXPECT_EQ(frequencies[31], 1);
  EXPECT_EQ(frequencies[5], 1 + 2045);
  EXPECT_EQ(frequencies[0], 4096 - 2046 - 2);
  // An empty sample, too, gives a table.
  EXPECT_EQ(SymbolTable::NormaliseSample(std::array<uint64_t, kSymbols>{})[0], 1366);
}

TEST(SymbolTable, NormalisesHugeCountsWithoutOverflow) {
  std::array<uint64_t, kSymbols> counts{};
  counts[3] = uint64_t{1} << 58;
  counts[4] = uint64_t{1} << 57;
  const auto frequencies = SymbolTable::Normalise(counts);
  EXPECT_EQ(Sum(frequencies), kProbabilityOne);
  EXPECT_NEAR(frequencies[3], 2 * frequencies[4], 3);
}

TEST(SymbolTable, TheMostFrequentSymbolTakesWhatRoundingLeft) {
  std::array<uint64_t, kSymbols> counts{};
  counts[0] = 1;
  counts[1] = 1;
  counts[2] = 1;
  const auto frequencies = SymbolTable::Normalise(counts);
  EXPECT_EQ(frequencies[0], 1 + 1364 + 1);
  EXPECT_EQ(frequencies[1], 1 + 1364);
  EXPECT_EQ(frequencies[31], 0) << "what was not counted can't be coded";
}

TEST(SymbolTable, EverySlotLeadsBackToItsSymbol) {
  std::array<uint64_t, kSymbols> counts;
  std::iota(counts.begin(), counts.end(), 1);
  const SymbolTable table(SymbolTable::Normalise(counts));
  for (uint32_t slot = 0; slot < kProbabilityOne; ++slot) {
    const uint32_t symbol = table.SymbolAt(slot + 7 * kProbabilityOne);
    ASSERT_GE(slot, table.start(symbol));
    ASSERT_LT(slot, table.start(symbol) + table.frequency(symbol));
  }
}

TEST(SymbolTable, DividesExactlyByEveryFrequency) {
  std::mt19937_64 random(1);
  for (uint32_t frequency = 1; frequency <= kProbabilityOne; ++frequency) {
    SymbolTable::Frequencies frequencies{};
    frequencies[0] = static_cast<uint16_t>(frequency);
    frequencies[1] = static_cast<uint16_t>(kProbabilityOne - frequency);
    const SymbolTable table(frequencies);
    const uint32_t top = ~uint32_t{0};
    for (const uint32_t x :
         {0u, 1u, frequency - 1, frequency, frequency + 1, top, top - 1, top / frequency * frequency,
          top / frequency * frequency - 1, static_cast<uint32_t>(random()), static_cast<uint32_t>(random())}) {
      ASSERT_EQ(table.Divide(x, 0), x / frequency) << x << " / " << frequency;
    }
  }
}

TEST(SymbolTable, TravelsAsFrequenciesUpToTheLastUsedSymbol) {
  SymbolTable::Frequencies frequencies{};
  frequencies[0] = 4000;
  frequencies[5] = 96;
  Bytes bytes;
  ByteWriter writer(bytes);
  SymbolTable(frequencies).Serialize(writer);
  EXPECT_EQ(bytes, TableBytes(6, {4000, 0, 0, 0, 0, 96}));
  ByteReader reader(bytes);
  EXPECT_EQ(Must(SymbolTable::Parse(reader)).frequencies(), frequencies);
  EXPECT_TRUE(reader.AtEnd());
}

TEST(SymbolTable, TheEscapeHasTheRestAndIsNotListed) {
  SymbolTable::Frequencies frequencies{};
  frequencies[0] = 4000;
  frequencies[2] = 90;
  frequencies[31] = 6;
  Bytes bytes;
  ByteWriter writer(bytes);
  SymbolTable(frequencies).Serialize(writer);
  EXPECT_EQ(bytes, TableBytes(3, {4000, 0, 90}));
  EXPECT_EQ(Must(Parsed(bytes)).frequencies(), frequencies);
}

TEST(SymbolTable, ASingleSymbolMayHaveAllOfTheProbability) {
  EXPECT_EQ(Must(Parsed(TableBytes(1, {4096}))).frequency(0), kProbabilityOne);
  EXPECT_EQ(Must(Parsed(TableBytes(0, {}))).frequency(31), kProbabilityOne);
  SymbolTable::Frequencies escapes{};
  escapes[31] = kProbabilityOne;
  Bytes bytes;
  ByteWriter writer(bytes);
  SymbolTable(escapes).Serialize(writer);
  EXPECT_EQ(bytes, TableBytes(0, {}));
}

RC_GTEST_PROP(SymbolTable, ComesBackFromItsSerialisedForm, (const std::vector<uint16_t>& some)) {
  std::array<uint64_t, kSymbols> counts{};
  for (size_t i = 0; i < some.size(); ++i) counts[some[i] % kSymbols] += some[i] >> 5;
  ++counts[some.size() % kSymbols];
  const SymbolTable table(SymbolTable::Normalise(counts));
  Bytes bytes;
  ByteWriter writer(bytes);
  table.Serialize(writer);
  ByteReader reader(bytes);
  RC_ASSERT(Must(SymbolTable::Parse(reader)).frequencies() == table.frequencies());
  RC_ASSERT(reader.AtEnd());
}

TEST(SymbolTable, RefusesTablesThatDoNotSumTo4096) {
  EXPECT_THAT(Parsed(TableBytes(32, std::vector<uint64_t>(32, 1))), Fails(Code::kCorrupt, HasSubstr("32 symbols")));
  EXPECT_THAT(Parsed(TableBytes(255, std::vector<uint64_t>(255, 1))), Fails(Code::kCorrupt, HasSubstr("255 symbols")));
  EXPECT_THAT(Parsed(TableBytes(2, {4096, 1})), Fails(Code::kCorrupt, HasSubstr("4097")));
  EXPECT_THAT(Parsed(TableBytes(2, {4097, 0})), Fails(Code::kCorrupt, HasSubstr("4097")));
  EXPECT_THAT(Parsed(TableBytes(2, {65536 + 4096, 0})), Fails(Code::kCorrupt));
  EXPECT_THAT(Parsed(TableBytes(2, {uint64_t{0} - 4096, 8192})), Fails(Code::kCorrupt));
  EXPECT_THAT(Parsed(TableBytes(3, {4096, 0})), Fails(Code::kCorrupt)) << "cut off";
  EXPECT_THAT(Parsed({}), Fails(Code::kCorrupt)) << "nothing at all";
}

}  // namespace
}  // namespace skerry
