#include "skerry/diff/find_changes.h"

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

using Finder = size_t (*)(const std::byte*, const std::byte*, size_t, int, uint32_t*);

std::vector<uint32_t> Found(Finder find, ByteSpan before, ByteSpan after, int unit) {
  const size_t units = before.size() / static_cast<size_t>(unit);
  std::vector<uint32_t> positions(units + 64);
  positions.resize(find(before.data(), after.data(), units, unit, positions.data()));
  return positions;
}

// Two buffers at any alignment that differ in about `density` of their units.
struct Buffers {
  Buffers(size_t units, int unit, size_t before_offset, size_t after_offset, double density, Random& random)
      : size(units * static_cast<size_t>(unit)), before_at(before_offset), after_at(after_offset) {
    TestTensor tensor{"", DType::kU8, {}, RandomBytes(size, random)};
    tensor.dtype = unit == 1 ? DType::kU8 : unit == 2 ? DType::kU16 : unit == 4 ? DType::kU32 : DType::kU64;
    before.resize(before_at + size);
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), before.begin() + static_cast<ptrdiff_t>(before_at));
    Nudge(tensor, density, random);
    after.resize(after_at + size);
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), after.begin() + static_cast<ptrdiff_t>(after_at));
  }
  ByteSpan Before() const { return ByteSpan(before).subspan(before_at, size); }
  ByteSpan After() const { return ByteSpan(after).subspan(after_at, size); }

  size_t size, before_at, after_at;
  Bytes before, after;
};

class FindChangesTest : public ::testing::TestWithParam<std::string> {
 protected:
  WithSimd with_{GetParam()};
};

TEST_P(FindChangesTest, FindsWhatTheScalarSpecificationFinds) {
  Random random(1);
  for (const int unit : {1, 2, 4, 8}) {
    for (int round = 0; round < 300; ++round) {
      const size_t units = round < 140 ? static_cast<size_t>(round) : random() % 3000;
      const double density = std::array{0.0, 0.001, 0.02, 0.3, 1.0}[random() % 5];
      const Buffers buffers(units, unit, random() % 17, random() % 17, density, random);
      const auto expected = Found(FindChangesScalar, buffers.Before(), buffers.After(), unit);
      ASSERT_EQ(Found(FindChanges, buffers.Before(), buffers.After(), unit), expected) << units << " units of " << unit;
      ASSERT_EQ(CountChanges(buffers.Before().data(), buffers.After().data(), units, unit), expected.size());
      RunningDigest digest{1, 1};
      std::vector<uint32_t> positions(units + 64);
      const uint64_t first_word = random();
      positions.resize(FindChangesAndDigest(buffers.Before().data(), buffers.After().data(), units, unit, first_word,
                                            positions.data(), digest));
      ASSERT_EQ(positions, expected);
      ASSERT_EQ(digest, DigestWordsScalar(buffers.Before(), first_word)) << units << " units of " << unit;
    }
  }
}

TEST_P(FindChangesTest, FindsEverySingleBit) {
  Random random(2);
  Bytes before = RandomBytes(8 * 150, random);
  for (const int unit : {1, 2, 4, 8}) {
    Bytes after = before;
    for (size_t bit = 0; bit < 8 * before.size(); bit += 5) {
      after[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_EQ(Found(FindChanges, before, after, unit),
                std::vector<uint32_t>{static_cast<uint32_t>(bit / 8 / static_cast<size_t>(unit))});
      after[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

template <typename T>
std::vector<uint32_t> FoundIn(std::vector<T> before, std::vector<T> after) {
  // Repeated, so that the vector path sees the pattern as well as the tail.
  const size_t once = before.size();
  for (size_t i = 0; i < 100 * once; ++i) {
    before.push_back(before[i]);
    after.push_back(after[i]);
  }
  std::vector<uint32_t> found =
      Found(FindChanges, std::as_bytes(std::span(before)), std::as_bytes(std::span(after)), sizeof(T));
  EXPECT_EQ(found,
            Found(FindChangesScalar, std::as_bytes(std::span(before)), std::as_bytes(std::span(after)), sizeof(T)));
  std::erase_if(found, [&](uint32_t position) { return position >= once; });
  return found;
}

TEST_P(FindChangesTest, A1_NaNsAreBits) {
  EXPECT_EQ(FoundIn<uint16_t>({0x3F80, 0x7F81, 0x7FC0, 0xFFC0}, {0x7FC1, 0x7F81, 0x3F80, 0xFFC1}),
            (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(FoundIn<uint32_t>({0x7F800001, 0x7FC00000, 0x80000000}, {0x7F800001, 0x7FC00001, 0x00000000}),
            (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(FoundIn<uint64_t>({0x7FF0000000000001, 0x8000000000000000}, {0x7FF8000000000001, 0}),
            (std::vector<uint32_t>{0, 1}));
}

TEST_P(FindChangesTest, A2_IntegersAndBoolsAreBits) {
  EXPECT_EQ(FoundIn<int64_t>({0, 1, 2}, {0, -1, 2}), std::vector<uint32_t>{1});
  EXPECT_EQ(FoundIn<uint8_t>({0, 1}, {1, 1}), std::vector<uint32_t>{0});
}

TEST_P(FindChangesTest, A3_SignedZerosAndNaNEncodingsOfFp8AreChanges) {
  EXPECT_EQ(FoundIn<uint8_t>({0x00, 0x80, 0x7F, 0x38}, {0x80, 0x00, 0xFF, 0x38}), (std::vector<uint32_t>{0, 1, 2}));
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, FindChangesTest, ::testing::ValuesIn(SimdNames()),
                         [](const auto& info) { return info.param; });

// The whole space of lengths, alignments and densities, on the best instruction set.
RC_GTEST_PROP(FindChanges, IsTheScalarOneForAnyBuffers, (uint64_t seed)) {
  Random random(seed);
  const int unit = *rc::gen::element(1, 2, 4, 8);
  const Buffers buffers(*rc::gen::inRange<size_t>(0, 2000), unit, *rc::gen::inRange<size_t>(0, 64),
                        *rc::gen::inRange<size_t>(0, 64), *rc::gen::inRange(0, 101) / 100.0, random);
  RC_ASSERT(Found(FindChanges, buffers.Before(), buffers.After(), unit) ==
            Found(FindChangesScalar, buffers.Before(), buffers.After(), unit));
}

}  // namespace
}  // namespace skerry
