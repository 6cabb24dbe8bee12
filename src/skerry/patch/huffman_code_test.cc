#include "skerry/patch/huffman_code.h"

#include <cmath>
#include <functional>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

ByteCounts Counts(const std::function<double(int)>& of) {
  ByteCounts counts{};
  for (int s = 0; s < 256; ++s) counts[static_cast<size_t>(s)] = static_cast<uint32_t>(of(s));
  return counts;
}

double Room(const HuffmanCode& code) {
  double room = 0;
  for (const uint8_t bits : code.bits) room += bits == 0 ? 0 : std::exp2(-bits);
  return room;
}

TEST(HuffmanCode, GivesEachBitOfAPowerOfTwoItsShare) {
  ByteCounts counts{};
  for (int s = 0; s < 5; ++s) counts[static_cast<size_t>(100 + s)] = 16u >> s;
  counts[105] = 1;
  const HuffmanCode code = MakeHuffmanCode(counts);
  for (int s = 0; s < 5; ++s) EXPECT_EQ(code.bits[static_cast<size_t>(100 + s)], s + 1);
  EXPECT_EQ(code.bits[105], 5);
  EXPECT_EQ(code.last, 105);
  EXPECT_EQ(code.longest, 5);
  // RFC 8878: the longest codes come first, and of two the lower byte's.
  EXPECT_EQ(code.code[104], 0b00000);
  EXPECT_EQ(code.code[105], 0b00001);
  EXPECT_EQ(code.code[103], 0b0001);
  EXPECT_EQ(code.code[100], 0b1);
}

TEST(HuffmanCode, IsCompleteAndShortEnoughWhateverTheCounts) {
  Random random(1);
  const std::vector<ByteCounts> cases = {
      Counts([](int) { return 1; }),
      Counts([](int s) { return s < 2; }),
      Counts([](int s) { return s == 3 || s == 255 ? 1u << s / 9 : 0; }),
      Counts([](int s) { return s < 31 ? std::exp2(s) : 0; }),
      Counts([](int s) { return 4e9 * std::pow(0.8, s); }),
      Counts([&](int) { return static_cast<uint32_t>(random() >> random() % 32 >> 32); }),
  };
  for (const ByteCounts& counts : cases) {
    const HuffmanCode code = MakeHuffmanCode(counts);
    EXPECT_EQ(Room(code), 1);
    EXPECT_LE(code.longest, kMaxCodeBits);
    for (size_t s = 0; s < 256; ++s) EXPECT_EQ(code.bits[s] != 0, counts[s] != 0) << s;
  }
}

TEST(HuffmanCode, CostsLittleMoreThanTheEntropy) {
  const ByteCounts counts = Counts([](int s) { return 65536 * std::exp(-0.5 * (s - 120) * (s - 120) / 9.0); });
  double total = 0, entropy = 0, bits = 0;
  for (const uint32_t count : counts) total += count;
  const HuffmanCode code = MakeHuffmanCode(counts);
  for (size_t s = 0; s < 256; ++s) {
    if (counts[s] == 0) continue;
    entropy -= counts[s] * std::log2(counts[s] / total);
    bits += counts[s] * code.bits[s];
  }
  EXPECT_LT(bits, 1.02 * entropy);
}

TEST(HuffmanCode, OfBytesUpTo128IsListedWhereItsWeightsAreAllTheSame) {
  Bytes out = {std::byte{1}};
  EXPECT_TRUE(WriteHuffmanCode(MakeHuffmanCode(Counts([](int s) { return s < 128; })), out));
  ASSERT_EQ(out.size(), 1u + 1 + 64);
  EXPECT_EQ(out[1], std::byte{127 + 127});
  EXPECT_EQ(out[2], std::byte{0x11});
  EXPECT_EQ(out.back(), std::byte{0x10}) << "the last weight is not listed";
}

TEST(HuffmanCode, OfAllBytesAlikeHasNoDescription) {
  Bytes out = {std::byte{1}};
  EXPECT_FALSE(WriteHuffmanCode(MakeHuffmanCode(Counts([](int) { return 1; })), out));
  EXPECT_EQ(out.size(), 1u);
}

}  // namespace
}  // namespace skerry
