#include "skerry/tensors/running_digest.h"

#include <numeric>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

Bytes Counting(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

std::pair<uint64_t, uint64_t> Pair(const RunningDigest& digest) { return {digest.a, digest.b}; }

// Expected values: an independent calculation from the text of docs/patch-format.md.
TEST(RunningDigest, HasTheValuesOfTheFormatDocument) {
  using P = std::pair<uint64_t, uint64_t>;
  for (const std::string& simd : SimdNames()) {
    const WithSimd with(simd);
    EXPECT_EQ(Pair(DigestWords({}, 0)), P(0, 0));
    EXPECT_EQ(Pair(DigestWords(Bytes(8), 0)), P(0x7CFEA076B8E63446, 0x0005998FF2861105));
    EXPECT_EQ(Pair(DigestWords(Bytes(1, std::byte{1}), 0)), P(0x7CFEA0761ABFB232, 0xAD49ED8E92D4A4B0));
    EXPECT_EQ(Pair(DigestWords(Counting(256), 0)), P(0x9A4D83DF928E95D0, 0x19765349BA5E1C73));
    EXPECT_EQ(Pair(DigestWords(Counting(13), 0)), P(0x1A46C8EBA5FAE7B5, 0xEEFE0E3600E31218));
    EXPECT_EQ(Pair(DigestWords(Bytes(24, std::byte{0xFF}), 0)), P(0x48B01FD81F514845, 0x46A95056854C62BA));
    EXPECT_EQ(Pair(DigestWords(Counting(16), 1000)), P(0xD416EA98C47C830E, 0x6414A6706B40D206));
  }
}

TEST(RunningDigest, EveryInstructionSetGivesTheScalarValue) {
  Random random(1);
  const Bytes bytes = RandomBytes(5000, random);
  for (const std::string& simd : SimdNames()) {
    const WithSimd with(simd);
    for (int i = 0; i < 400; ++i) {
      const size_t offset = random() % 64, size = i < 200 ? static_cast<size_t>(i) : random() % 4900;
      const uint64_t first_word = random();
      const ByteSpan part = ByteSpan(bytes).subspan(offset, size);
      ASSERT_EQ(DigestWords(part, first_word), DigestWordsScalar(part, first_word)) << simd << ", " << size << " bytes";
    }
  }
}

RC_GTEST_PROP(RunningDigest, PartsAddUpToTheWhole,
              (const std::vector<uint8_t>& content, const std::vector<uint16_t>& cuts)) {
  const ByteSpan whole = std::as_bytes(std::span(content));
  std::vector<size_t> places = {0, whole.size()};
  for (const uint16_t cut : cuts) places.push_back(std::min<size_t>(cut, whole.size()) / 8 * 8);
  std::sort(places.begin(), places.end());
  RunningDigest sum;
  for (size_t i = 1; i < places.size(); ++i)
    sum += DigestWords(whole.subspan(places[i - 1], places[i] - places[i - 1]), places[i - 1] / 8);
  RC_ASSERT(sum == DigestWordsScalar(whole, 0));
}

RC_GTEST_PROP(RunningDigest, AChangedWordMovesItByTheDifferenceOfTheMixes, (uint64_t new_word, uint16_t place)) {
  Random random(place);
  Bytes bytes = RandomBytes(8 * 500, random);
  const uint64_t word = place % 500;
  const RunningDigest before = DigestWords(bytes, 7);
  RunningDigest expected = before;
  expected += MixWord(7 + word, new_word) - MixWord(7 + word, LoadLe<uint64_t>(bytes.data() + 8 * word));
  StoreLe(bytes.data() + 8 * word, new_word);
  RC_ASSERT(DigestWords(bytes, 7) == expected);
}

TEST(RunningDigest, AFlippedBitAlwaysShowsInBothLanes) {
  Random random(2);
  Bytes bytes = RandomBytes(333, random);
  const RunningDigest whole = DigestWords(bytes, 0);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const RunningDigest flipped = DigestWords(bytes, 0);
    EXPECT_NE(flipped.a, whole.a) << bit;
    EXPECT_NE(flipped.b, whole.b) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST(RunningDigest, SwappedWordsAndPairsOfFlipsShow) {
  Random random(3);
  Bytes bytes = RandomBytes(8 * 64, random);
  const RunningDigest whole = DigestWords(bytes, 0);
  for (int i = 0; i < 5000; ++i) {
    Bytes other = bytes;
    const size_t a = random() % 64, b = (a + 1 + random() % 63) % 64;
    if (i % 2 == 0) {
      std::swap_ranges(other.begin() + static_cast<ptrdiff_t>(8 * a), other.begin() + static_cast<ptrdiff_t>(8 * a + 8),
                       other.begin() + static_cast<ptrdiff_t>(8 * b));
    } else {
      const size_t bit = random() % 64;
      for (const size_t word : {a, b}) other[8 * word + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    ASSERT_NE(DigestWords(other, 0), whole);
  }
}

TEST(RunningDigest, ZerosAtTheEndOfAWordDoNotCountButFurtherWordsDo) {
  const Bytes three(3, std::byte{5});
  Bytes padded = three;
  padded.resize(8);
  EXPECT_EQ(DigestWords(three, 0), DigestWords(padded, 0)) << "the size is the layout's business";
  padded.resize(16);
  EXPECT_NE(DigestWords(three, 0), DigestWords(padded, 0));
}

TEST(ModelDigest, HasTheValueOfTheFormatDocument) {
  const std::vector<RunningDigest> digests = {{0, 0}, {1, 2}, {3, ~uint64_t{0}}, {5, 6}};
  const Digest tensors = Digest::FromHex("9e30cd1ad357a6756d5f4a3dab472acce780bedf2496284f867bf7637f7e2872").value();
  EXPECT_EQ(ModelDigest(tensors, digests).Hex(), "52b8a88baf96625cd1091251a070c4984387f4617914564b13219533784244d5");
}

TEST(DigestTensors, DoesNotDependOnThreadsOrOnTheSource) {
  Random random(4);
  TestModel model = SmallModel(random);
  model.tensors.push_back(RandomTensor("large", DType::kU8, {9'000'001}, random));  // several tasks
  const ModelSource source(model);
  const std::vector<RunningDigest> one = DigestTensors(source, 1, Progress::None()).value();
  EXPECT_EQ(DigestTensors(source, 4, Progress::None()).value(), one);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], DigestWordsScalar(source.tensor(i).bytes, 0));
}

}  // namespace
}  // namespace skerry
