#include "skerry/base/bytes.h"

#include "skerry/base/hash.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

Bytes FromText(std::string_view hex) { return Must(FromHex(hex)); }

RC_GTEST_PROP(Varint, ComesBackAndIsTheShortest, (uint64_t value, uint8_t shift)) {
  value >>= shift % 64;
  Bytes bytes;
  ByteWriter(bytes).Varint(value);
  RC_ASSERT(bytes.size() == std::max<size_t>(1, (static_cast<size_t>(std::bit_width(value)) + 6) / 7));
  ByteReader reader(bytes);
  RC_ASSERT(reader.Varint() == value);
  RC_ASSERT(reader.AtEnd());
}

TEST(Varint, HasTheBytesOfLeb128) {
  for (const auto& [value, hex] : {std::pair<uint64_t, const char*>{0, "00"},
                                   {1, "01"},
                                   {127, "7f"},
                                   {128, "8001"},
                                   {300, "ac02"},
                                   {~uint64_t{0}, "ffffffffffffffffff01"}}) {
    Bytes bytes;
    ByteWriter(bytes).Varint(value);
    EXPECT_EQ(ToHex(bytes), hex);
  }
}

TEST(Varint, RefusesOverLongAndOverflowingForms) {
  for (const char* hex :
       {"8000", "808000", "ff00", "ffffffffffffffffff02", "ffffffffffffffffff7f", "ffffffffffffffffffff01",
        "80808080808080808000", "8080808080808080808001", "80", "ffffffffffffffffff", ""}) {
    const Bytes bytes = FromText(hex);
    ByteReader reader(bytes);
    EXPECT_EQ(reader.Varint(), 0u) << hex;
    EXPECT_FALSE(reader.ok()) << hex;
  }
}

TEST(ByteReader, ReadsWhatTheWriterWrote) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.Int<uint8_t>(0x12);
  writer.Int<uint16_t>(0x3456);
  writer.Int<int32_t>(-2);
  writer.Int<uint64_t>(0x0123456789ABCDEF);
  writer.Text("name");
  writer.Raw(Bytes(3, std::byte{9}));
  EXPECT_EQ(ToHex(bytes),
            "12"
            "5634"
            "feffffff"
            "efcdab8967452301"
            "046e616d65"
            "090909");
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Int<uint8_t>(), 0x12);
  EXPECT_EQ(reader.Int<uint16_t>(), 0x3456);
  EXPECT_EQ(reader.Int<int32_t>(), -2);
  EXPECT_EQ(reader.Int<uint64_t>(), 0x0123456789ABCDEFu);
  EXPECT_EQ(reader.Text(4), "name");
  EXPECT_FALSE(reader.AtEnd());
  EXPECT_EQ(reader.Raw(3).size(), 3u);
  EXPECT_TRUE(reader.AtEnd());
}

TEST(ByteReader, FailsForGoodPastItsEnd) {
  const Bytes bytes(6, std::byte{0xFF});
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Int<uint32_t>(), ~uint32_t{0});
  EXPECT_EQ(reader.Int<uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.Int<uint8_t>(), 0) << "the two bytes that were left are not given out any more";
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_FALSE(reader.AtEnd());
  EXPECT_TRUE(reader.Raw(0).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, RefusesLengthsBeyondItsEndOrTheLimit) {
  const Bytes bytes = FromText(
      "ffffffffffffffffff01"
      "6162");
  ByteReader reader(bytes);
  EXPECT_TRUE(reader.Text(~uint64_t{0}).empty());
  EXPECT_FALSE(reader.ok());
  const Bytes text = FromText("0361626300");
  ByteReader limited(text);
  EXPECT_TRUE(limited.Text(2).empty());
  EXPECT_FALSE(limited.ok());
  ByteReader raw(text);
  EXPECT_TRUE(raw.Raw(~uint64_t{0}).empty());
  EXPECT_FALSE(raw.ok());
}

TEST(Hex, DigestsPrintAndParse) {
  const Digest digest = Sha256::Of("abc");
  EXPECT_EQ(digest.Hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest.Short(), "ba7816bf8f01");
  EXPECT_EQ(Must(Digest::FromHex(digest.Hex())), digest);
  EXPECT_EQ(Must(Digest::FromHex("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD")), digest);
  for (const std::string& bad : {std::string(), std::string("ba78"), digest.Hex() + "00", digest.Hex().substr(1),
                                 std::string(64, 'g'), std::string(64, ' ')}) {
    EXPECT_THAT(Digest::FromHex(bad), Fails(Code::kCorrupt)) << bad;
  }
}

TEST(Sha256, InPartsIsTheSameAsAtOnce) {
  Sha256 hash;
  hash.Update("a");
  hash.Update(std::string_view());
  hash.Update("bc");
  EXPECT_EQ(hash.Finish(), Sha256::Of("abc"));
  EXPECT_EQ(Sha256::Of("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace skerry
