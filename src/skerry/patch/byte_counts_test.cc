#include "skerry/patch/byte_counts.h"

#include <numeric>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

ByteCounts CountedOneByOne(ByteSpan bytes) {
  ByteCounts counts{};
  for (const std::byte byte : bytes) ++counts[std::to_integer<size_t>(byte)];
  return counts;
}

TEST(ByteCounts, AreHowOftenEachByteOccurs) {
  Random random(1);
  for (const size_t size : {0u, 1u, 7u, 8u, 9u, 4096u, 10'001u}) {
    const Bytes bytes = RandomBytes(size, random);
    EXPECT_EQ(CountBytes(bytes), CountedOneByOne(bytes)) << size;
  }
}

TEST(ByteCounts, OfASampleAreOfLinesFromAllOver) {
  Bytes bytes;
  for (int part = 0; part < 16; ++part) bytes.insert(bytes.end(), 4096, static_cast<std::byte>(part));
  const ByteCounts counts = CountSample(bytes, 4096);
  for (size_t part = 0; part < 16; ++part) EXPECT_EQ(counts[part], 256u);
  EXPECT_EQ(CountSample(ByteSpan(bytes).first(100), 4096), CountBytes(ByteSpan(bytes).first(100)));
}

TEST(ByteCounts, ForACodeKnowEveryByteThatOccurs) {
  Random random(2);
  Bytes bytes(100'000, std::byte{120});
  for (size_t i = 0; i < bytes.size(); i += 3) bytes[i] = static_cast<std::byte>(118 + random() % 5);
  // What no sample finds: near the others, zero, and far away.
  for (const std::vector<uint8_t>& rare : {std::vector<uint8_t>{116, 124}, {0}, {1}, {255}, {0, 30, 200}}) {
    Bytes with_rare = bytes;
    for (size_t i = 0; i < rare.size(); ++i) with_rare[64 * (100 * i + 1) + 7] = std::byte{rare[i]};
    const ByteCounts counts = CountForCode(with_rare), all = CountedOneByOne(with_rare);
    size_t without_need = 0;
    for (size_t s = 0; s < 256; ++s) {
      EXPECT_TRUE(all[s] == 0 || counts[s] > 0) << s;
      without_need += all[s] == 0 && counts[s] > 0;
    }
    EXPECT_LE(without_need, 16u);
  }
}

TEST(ByteCounts, ForACodeOfOneByteAreOfThatByte) {
  for (const uint8_t byte : {0, 7, 255}) {
    const ByteCounts counts = CountForCode(Bytes(50'000, std::byte{byte}));
    EXPECT_GT(counts[byte], 0u);
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 0u), 255);
  }
}

}  // namespace
}  // namespace skerry
