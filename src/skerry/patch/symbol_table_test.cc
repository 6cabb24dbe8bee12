#include "skerry/patch/symbol_table.h"

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

RC_GTEST_PROP(SymbolTable, NormalisedFrequenciesSumToOneAndLeaveNoSymbolOut, (const std::vector<uint32_t>& some)) {
  std::array<uint64_t, kSymbols> counts{};
  for (size_t i = 0; i < std::min<size_t>(kSymbols, some.size()); ++i) counts[i] = some[i];
  const auto frequencies = SymbolTable::Normalise(counts);
  RC_ASSERT(Sum(frequencies) == kProbabilityOne);
  for (const uint16_t frequency : frequencies) RC_ASSERT(frequency >= 1);
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
  EXPECT_EQ(frequencies[0], 1 + 1354 + 2);
  EXPECT_EQ(frequencies[1], 1 + 1354);
  EXPECT_EQ(frequencies[31], 1);
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

TEST(SymbolTable, ASingleSymbolMayHaveAllOfTheProbability) {
  EXPECT_EQ(Must(Parsed(TableBytes(1, {4096}))).frequency(0), kProbabilityOne);
}

TEST(SymbolTable, RefusesTablesThatDoNotSumTo4096) {
  EXPECT_THAT(Parsed(TableBytes(0, {})), Fails(Code::kCorrupt, HasSubstr("0 symbols")));
  EXPECT_THAT(Parsed(TableBytes(33, std::vector<uint64_t>(33, 1))), Fails(Code::kCorrupt, HasSubstr("33 symbols")));
  EXPECT_THAT(Parsed(TableBytes(2, {4096, 1})), Fails(Code::kCorrupt, HasSubstr("4097")));
  EXPECT_THAT(Parsed(TableBytes(2, {4000, 95})), Fails(Code::kCorrupt, HasSubstr("4095")));
  EXPECT_THAT(Parsed(TableBytes(2, {4097, 0})), Fails(Code::kCorrupt, HasSubstr("4097")));
  EXPECT_THAT(Parsed(TableBytes(2, {65536 + 4096, 0})), Fails(Code::kCorrupt));
  EXPECT_THAT(Parsed(TableBytes(2, {uint64_t{0} - 4096, 8192})), Fails(Code::kCorrupt));
  EXPECT_THAT(Parsed(TableBytes(3, {4096, 0})), Fails(Code::kCorrupt)) << "cut off";
}

}  // namespace
}  // namespace skerry
