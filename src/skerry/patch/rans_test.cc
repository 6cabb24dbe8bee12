#include "skerry/patch/rans.h"

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

struct Coded {
  uint32_t state_a = kRansLow, state_b = kRansLow;
  Bytes words;
};

// Alternates two states over one stream of words, as blocks do.
Coded Encode(const std::vector<uint32_t>& symbols, const SymbolTable& a, const SymbolTable& b) {
  std::vector<uint16_t> buffer(symbols.size() + 1);
  RansEncoder encoder(buffer);
  Coded coded;
  for (size_t i = symbols.size(); i-- > 0;) {
    encoder.Put(i % 2 == 0 ? coded.state_a : coded.state_b, i % 2 == 0 ? a : b, symbols[i]);
  }
  coded.words = ToBytes(std::as_bytes(encoder.words()));
  return coded;
}

SymbolTable RandomTable(Random& random) {
  std::array<uint64_t, kSymbols> counts{};
  for (uint64_t& count : counts) count = random() % 3 == 0 ? 1 + random() % (uint64_t{1} << random() % 30) : 1;
  return SymbolTable(SymbolTable::Normalise(counts));
}

TEST(Rans, GivesBackWhatWasCodedWithTwoInterleavedStates) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const SymbolTable a = RandomTable(random), b = RandomTable(random);
    std::vector<uint32_t> symbols(random() % 3000);
    for (uint32_t& symbol : symbols) symbol = static_cast<uint32_t>(random() % kSymbols);  // rare ones too
    const Coded coded = Encode(symbols, a, b);
    std::vector<uint16_t> words;
    ReadWords(coded.words, words);
    RansDecoder decoder(words);
    uint32_t state_a = coded.state_a, state_b = coded.state_b;
    for (size_t i = 0; i < symbols.size(); ++i) {
      ASSERT_EQ(decoder.Get(i % 2 == 0 ? state_a : state_b, i % 2 == 0 ? a : b), symbols[i]);
    }
    EXPECT_TRUE(decoder.AtEnd());
    EXPECT_EQ(state_a, kRansLow);
    EXPECT_EQ(state_b, kRansLow);
  }
}

TEST(Rans, ACertainSymbolCostsNothing) {
  SymbolTable::Frequencies all_in_one{};
  all_in_one[9] = kProbabilityOne;
  const SymbolTable table(all_in_one);
  const Coded coded = Encode(std::vector<uint32_t>(1000, 9), table, table);
  EXPECT_TRUE(coded.words.empty());
  EXPECT_EQ(coded.state_a, kRansLow);
}

TEST(Rans, ComesCloseToTheEntropy) {
  std::array<uint64_t, kSymbols> counts{};
  counts[0] = 45;
  counts[1] = 45;
  counts[2] = 10;
  const SymbolTable table(SymbolTable::Normalise(counts));
  Random random(2);
  std::vector<uint32_t> symbols(20'000);
  for (uint32_t& symbol : symbols) {
    const uint64_t die = random() % 100;
    symbol = die < 45 ? 0u : die < 90 ? 1u : 2u;
  }
  const double bits = 8.0 * static_cast<double>(Encode(symbols, table, table).words.size());
  EXPECT_NEAR(bits / static_cast<double>(symbols.size()), 1.369, 0.03);
}

TEST(Rans, NoticesThatTheWordsRanOut) {
  Random random(3);
  const SymbolTable table = RandomTable(random);
  std::vector<uint32_t> symbols(500);
  for (uint32_t& symbol : symbols) symbol = static_cast<uint32_t>(random() % kSymbols);
  const Coded coded = Encode(symbols, table, table);
  std::vector<uint16_t> words;
  ReadWords(ByteSpan(coded.words).first(coded.words.size() - 2), words);
  RansDecoder decoder(words);
  uint32_t state_a = coded.state_a, state_b = coded.state_b;
  for (size_t i = 0; i < symbols.size() && decoder.ok(); ++i) decoder.Get(i % 2 == 0 ? state_a : state_b, table);
  EXPECT_FALSE(decoder.ok());
  EXPECT_FALSE(decoder.AtEnd());
}

}  // namespace
}  // namespace skerry
