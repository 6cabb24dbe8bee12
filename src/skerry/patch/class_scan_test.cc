#include "skerry/patch/class_scan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

constexpr DType kDTypes[] = {DType::kF4,   DType::kF8E4M3, DType::kF8E8M0, DType::kF16,
                             DType::kBF16, DType::kF32,    DType::kF64};

// Classes at random magnitudes, crowded where random bits are; with `aligned`, at multiples of what the upper eight
// bits below the sign stand for.
MagnitudeClasses RandomClasses(const MagnitudeView& view, int count, Random& random, bool aligned = false) {
  const uint64_t unit = aligned && view.bits > 8 ? uint64_t{1} << (view.bits - 9) : 1;
  std::set<uint64_t> lowest;
  while (lowest.size() + 1 < static_cast<size_t>(count)) {
    const uint64_t bound = random() % (view.mask / unit + 1) * unit;
    if (bound != 0) lowest.insert(bound);
  }
  return MagnitudeClasses(view, {lowest.begin(), lowest.end()});
}

int RandomCount(const MagnitudeView& view, Random& random) {
  return static_cast<int>(1 + random() % std::min<uint64_t>(kMaxClasses, view.mask));
}

std::vector<uint32_t> RandomPositions(size_t elements, uint64_t one_in, Random& random) {
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < elements; ++i) {
    if (random() % one_in == 0) positions.push_back(i);
  }
  return positions;
}

struct Numbered {
  std::vector<uint8_t> class_of;
  std::vector<uint32_t> number_of;
};

// Wanted members from what was numbered; the payload of each is its index.
class Wanted {
 public:
  Wanted(const Numbered& numbered, const ClassCounts& first) {
    for (size_t i = 0; i < numbered.class_of.size(); ++i) {
      const size_t c = numbered.class_of[i];
      numbers_[c].push_back(numbered.number_of[i] - first[c]);
      payloads_[c].push_back(static_cast<uint32_t>(i));
    }
  }
  WantedMembers members() const {
    WantedMembers wanted;
    for (size_t c = 0; c < kMaxClasses; ++c) wanted.Add(static_cast<int>(c), numbers_[c], payloads_[c].data());
    return wanted;
  }

 private:
  std::array<std::vector<uint32_t>, kMaxClasses> numbers_, payloads_;
};

// Counts, numbers and finds again, and compares all of it with the specification.
void ExpectLikeTheSpecification(ByteSpan bytes, const MagnitudeClasses& classes,
                                const std::vector<uint32_t>& positions) {
  const size_t elements = ElementsIn(bytes, classes.view()), rows_bytes = RowsBytes(elements, classes.count());
  SCOPED_TRACE(fmt::format("{} elements of {} bits in {} classes", elements, classes.view().bits, classes.count()));
  std::vector<uint8_t> rows(rows_bytes + kRowSlack), expected_rows(rows_bytes);
  ClassCounts counts{}, expected_counts{};
  counts[0] = expected_counts[0] = 7;
  CountMembers(bytes, classes, rows.data(), counts);
  CountMembersScalar(bytes, classes, expected_rows.data(), expected_counts);
  ASSERT_TRUE(std::equal(expected_rows.begin(), expected_rows.end(), rows.begin()));
  ASSERT_EQ(counts, expected_counts);

  ClassCounts first{}, expected_first{};
  for (size_t c = 0; c < kMaxClasses; ++c) first[c] = expected_first[c] = static_cast<uint32_t>(c * 1000 + 17);
  const ClassCounts before = first;
  Numbered numbered{std::vector<uint8_t>(positions.size()), std::vector<uint32_t>(positions.size())};
  Numbered expected = numbered;
  NumberMembers(bytes, classes, rows.data(), positions, first, numbered.class_of.data(), numbered.number_of.data());
  NumberMembersScalar(bytes, classes, positions, expected_first, expected.class_of.data(), expected.number_of.data());
  ASSERT_EQ(numbered.class_of, expected.class_of);
  ASSERT_EQ(numbered.number_of, expected.number_of);
  ASSERT_EQ(first, expected_first);

  // Back again: what was numbered is found where it was.
  const Wanted wanted(numbered, before);
  for (const bool scalar : {false, true}) {
    WantedMembers left = wanted.members();
    std::vector<uint32_t> found(positions.size()), payloads(positions.size());
    const size_t count = scalar ? FindMembersScalar(bytes, classes, left, 5, found.data(), payloads.data())
                                : FindMembers(bytes, classes, rows.data(), left, 5, found.data(), payloads.data());
    ASSERT_EQ(count, positions.size());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[i], positions[i] + 5);
      ASSERT_EQ(payloads[i], i);
    }
    for (size_t c = 0; c < kMaxClasses; ++c) ASSERT_EQ(left.next[c], left.end[c]) << "nothing is left to be found";
  }
}

class ClassScanTest : public ::testing::TestWithParam<std::string> {
 protected:
  WithSimd with_{GetParam()};
};

TEST_P(ClassScanTest, CountsNumbersAndFindsAsTheScalarSpecificationDoes) {
  Random random(1);
  for (const DType dtype : kDTypes) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    for (int round = 0; round < 120; ++round) {
      // Off any alignment.
      const size_t units = random() % 700, offset = random() % 9;
      const Bytes buffer = RandomBytes(offset + units * static_cast<size_t>(DTypeUnit(dtype)), random);
      const ByteSpan bytes = ByteSpan(buffer).subspan(offset);
      const bool aligned = round % 2 == 0;
      ASSERT_NO_FATAL_FAILURE(
          ExpectLikeTheSpecification(bytes, RandomClasses(view, RandomCount(view, random), random, aligned),
                                     RandomPositions(ElementsIn(bytes, view), 1 + random() % 50, random)));
    }
  }
}

TEST_P(ClassScanTest, DoesSoForEveryLengthUpTo300) {
  Random random(2);
  for (const DType dtype : kDTypes) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    for (size_t units = 0; units <= 300; ++units) {
      const Bytes bytes = RandomBytes(units * static_cast<size_t>(DTypeUnit(dtype)), random);
      const int count = std::min(RandomCount(view, random), static_cast<int>(units % kMaxClasses) + 1);
      ASSERT_NO_FATAL_FAILURE(
          ExpectLikeTheSpecification(bytes, RandomClasses(view, count, random, units % 2 == 0),
                                     RandomPositions(ElementsIn(bytes, view), 1 + units % 4, random)));
    }
  }
}

// A kernel sums some hundred rows at a time, and numbers 512 groups at a time.
TEST_P(ClassScanTest, DoesSoForLongRunsAroundItsChunks) {
  Random random(3);
  for (const DType dtype : kDTypes) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    for (const size_t elements : {32'770u, 65'406u, 65'408u, 65'410u, 65'534u, 65'536u, 65'538u, 65'664u, 131'074u}) {
      Bytes bytes = RandomBytes(elements * static_cast<size_t>(view.bits) / 8, random);
      const bool aligned = elements % 4 == 0;
      const MagnitudeClasses classes = RandomClasses(view, RandomCount(view, random), random, aligned);
      ASSERT_NO_FATAL_FAILURE(
          ExpectLikeTheSpecification(bytes, classes, RandomPositions(elements, 1 + random() % 300, random)));
      // All of one class: the fullest sums.
      std::fill(bytes.begin(), bytes.end(), elements % 4 == 0 ? std::byte{0xFF} : std::byte{0});
      ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, classes, RandomPositions(elements, 700, random)));
    }
  }
}

TEST_P(ClassScanTest, EveryElementMayBeWanted) {
  Random random(4);
  for (const DType dtype : kDTypes) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    const Bytes bytes = RandomBytes(5000 * static_cast<size_t>(DTypeUnit(dtype)), random);
    for (const int count : {1, RandomCount(view, random)}) {
      std::vector<uint32_t> all(ElementsIn(bytes, view));
      std::iota(all.begin(), all.end(), 0);
      ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, RandomClasses(view, count, random), all));
      ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, RandomClasses(view, count, random), {}));
    }
  }
}

// Every bit pattern of 8 and 4 bits, with bounds at both ends and everywhere between.
TEST_P(ClassScanTest, SmallDtypesAreRightAtEveryBound) {
  Random random(5);
  Bytes bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<std::byte>(i));
  for (const int extreme : {0x00, 0xFF, 0x7F, 0x80}) bytes.insert(bytes.end(), 70, static_cast<std::byte>(extreme));
  for (const DType dtype : {DType::kF4, DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0}) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    const std::vector<uint32_t> positions = RandomPositions(ElementsIn(bytes, view), 2, random);
    for (uint64_t bound = 1; bound <= view.mask; ++bound) {
      ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, MagnitudeClasses(view, {bound}), positions));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, MagnitudeClasses(view, {1, view.mask}), positions));
    // As many classes as magnitudes, or as there may be.
    std::vector<uint64_t> lowest;
    for (uint64_t bound = 1; bound <= view.mask && bound < kMaxClasses; ++bound) lowest.push_back(bound);
    ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, MagnitudeClasses(view, lowest), positions));
  }
}

// Infinities, NaNs, zeros and subnormals of wider dtypes, with bounds right at them; the sign never counts.
TEST_P(ClassScanTest, WideDtypesAreRightAtTheirExtremes) {
  Random random(6);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    const uint64_t sign = view.mask + 1, one = uint64_t{1} << view.exponent_bit, infinity = view.mask & ~(one - 1),
                   top = uint64_t{1} << (view.bits - 9);
    Bytes bytes;
    for (int i = 0; i < 30; ++i) {
      for (const uint64_t magnitude : {uint64_t{0}, uint64_t{1}, one - 1, one, one + 1, top - 1, top, infinity - 1,
                                       infinity, infinity + 1, view.mask - 1, view.mask}) {
        const uint64_t bits = magnitude | (random() % 2 != 0 ? sign : 0);
        bytes.insert(bytes.end(), reinterpret_cast<const std::byte*>(&bits),
                     reinterpret_cast<const std::byte*>(&bits) + view.bits / 8);
      }
    }
    const std::vector<uint32_t> positions = RandomPositions(ElementsIn(bytes, view), 3, random);
    for (const auto& lowest : std::vector<std::vector<uint64_t>>{{1},
                                                                 {one},
                                                                 {top},
                                                                 {view.mask},
                                                                 {infinity},
                                                                 {top, infinity & ~(top - 1)},
                                                                 {1, one, infinity, infinity + 1, view.mask}}) {
      ASSERT_NO_FATAL_FAILURE(ExpectLikeTheSpecification(bytes, MagnitudeClasses(view, lowest), positions));
    }
  }
}

// As where a block has several runs: numbers and the search run on from one to the next.
TEST_P(ClassScanTest, NumbersRunOnFromRunToRun) {
  Random random(7);
  for (const DType dtype : kDTypes) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    for (int round = 0; round < 20; ++round) {
      const MagnitudeClasses classes = RandomClasses(view, RandomCount(view, random), random, round % 2 == 0);
      std::vector<Bytes> runs;
      std::vector<std::vector<uint8_t>> rows;
      std::vector<uint32_t> positions;  // over all runs
      Numbered numbered;
      ClassCounts first{}, counts{};
      uint32_t base = 0;
      for (const size_t units : {1u, 64u, 0u, 333u, 3u, 128u, 1u}) {
        runs.push_back(RandomBytes(units * static_cast<size_t>(DTypeUnit(dtype)), random));
        const size_t elements = ElementsIn(runs.back(), view);
        rows.emplace_back(RowsBytes(elements, classes.count()) + kRowSlack);
        CountMembers(runs.back(), classes, rows.back().data(), counts);
        const std::vector<uint32_t> some = RandomPositions(elements, 4, random);
        const size_t had = positions.size();
        numbered.class_of.resize(had + some.size());
        numbered.number_of.resize(had + some.size());
        NumberMembers(runs.back(), classes, rows.back().data(), some, first, numbered.class_of.data() + had,
                      numbered.number_of.data() + had);
        ASSERT_EQ(first, counts);
        for (const uint32_t position : some) positions.push_back(base + position);
        base += static_cast<uint32_t>(elements);
      }
      const Wanted wanted(numbered, {});
      WantedMembers left = wanted.members();
      std::vector<uint32_t> found(positions.size()), payloads(positions.size());
      size_t count = 0;
      base = 0;
      for (size_t r = 0; r < runs.size(); ++r) {
        count +=
            FindMembers(runs[r], classes, rows[r].data(), left, base, found.data() + count, payloads.data() + count);
        base += static_cast<uint32_t>(ElementsIn(runs[r], view));
      }
      ASSERT_EQ(count, positions.size());
      ASSERT_EQ(found, positions) << DTypeName(dtype);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(payloads[i], i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, ClassScanTest, ::testing::ValuesIn(SimdNames()),
                         [](const auto& info) { return info.param; });

TEST(ClassScan, CountsByHand) {
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kBF16), {0x3F80, 0x4000});
  // 0, -0, 1, -1.99, 2, NaN
  const Bytes bytes =
      BitsTensor<uint16_t>("", DType::kBF16, {6}, {0x0000, 0x8000, 0x3F80, 0xBFFF, 0x4000, 0xFFFF}).bytes;
  std::vector<uint8_t> rows(RowsBytes(6, 3) + kRowSlack);
  ClassCounts counts{};
  CountMembers(bytes, classes, rows.data(), counts);
  rows.resize(RowsBytes(6, 3));
  EXPECT_THAT(rows, ::testing::ElementsAre(2, 2, 2, 0));
  rows.resize(rows.size() + kRowSlack);
  ClassCounts first{};
  std::vector<uint8_t> class_of(3);
  std::vector<uint32_t> number_of(3);
  NumberMembers(bytes, classes, rows.data(), std::vector<uint32_t>{1, 3, 5}, first, class_of.data(), number_of.data());
  EXPECT_THAT(class_of, ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(number_of, ::testing::ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace skerry
