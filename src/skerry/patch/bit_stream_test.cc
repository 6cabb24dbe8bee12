#include "skerry/patch/bit_stream.h"

#include <rapidcheck/gtest.h>

#include "skerry/base/hash.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

RC_GTEST_PROP(BitStream, GivesBackEveryFieldAndThenIsAtItsEnd,
              (const std::vector<std::pair<uint64_t, uint8_t>>& fields)) {
  Bytes bytes;
  BitWriter writer(bytes);
  size_t bits = 0;
  std::vector<std::pair<uint64_t, int>> written;
  for (const auto& [value, width] : fields) {
    const int count = width % 65;
    const uint64_t field = count == 64 ? value : value & ((uint64_t{1} << count) - 1);
    writer.Put(field, count);
    written.emplace_back(field, count);
    bits += static_cast<size_t>(count);
  }
  writer.Finish();
  RC_ASSERT(bytes.size() == (bits + 7) / 8);
  BitReader reader(bytes);
  size_t left = bits;
  for (const auto& [field, count] : written) {
    RC_ASSERT(reader.Get(count) == field);
    left -= static_cast<size_t>(count);
    if (left >= 8) RC_ASSERT(!reader.AtEnd());
  }
  RC_ASSERT(reader.AtEnd());
}

TEST(BitStream, PutsTheLowestBitFirst) {
  Bytes bytes;
  BitWriter writer(bytes);
  writer.Put(0b101, 3);
  writer.Put(0x1FF, 9);
  writer.Finish();
  EXPECT_EQ(ToHex(bytes), "fd0f");
}

TEST(BitStream, ReadsZerosPastItsEndAndSaysSo) {
  const Bytes bytes(3, std::byte{0xFF});
  BitReader reader(bytes);
  EXPECT_EQ(reader.Get(20), 0xFFFFFu);
  EXPECT_EQ(reader.Get(20), 0xFu);
  EXPECT_FALSE(reader.AtEnd());
  EXPECT_EQ(reader.Get(64), 0u);
  EXPECT_EQ(reader.Get(1), 0u);
  EXPECT_FALSE(reader.AtEnd());
}

TEST(BitStream, RefusesPaddingThatIsNotZeroAndBytesThatWereNotRead) {
  const Bytes dirty(1, std::byte{0b1000'0101});
  BitReader reader(dirty);
  EXPECT_EQ(reader.Get(3), 0b101u);
  EXPECT_FALSE(reader.AtEnd());
  const Bytes longer(2, std::byte{0});
  BitReader short_of_it(longer);
  EXPECT_EQ(short_of_it.Get(8), 0u);
  EXPECT_FALSE(short_of_it.AtEnd());
  EXPECT_TRUE(BitReader(ByteSpan()).AtEnd());
}

}  // namespace
}  // namespace skerry
