#include "skerry/patch/class_scan.h"

#include <algorithm>
#include <set>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

// Classes at random magnitudes, crowded where random bits are.
MagnitudeClasses RandomClasses(const MagnitudeView& view, int count, Random& random) {
  std::set<uint64_t> lowest;
  while (lowest.size() + 1 < static_cast<size_t>(count)) {
    const uint64_t bound = random() & view.mask;
    if (bound != 0) lowest.insert(bound);
  }
  return MagnitudeClasses(view, {lowest.begin(), lowest.end()});
}

constexpr DType kDTypes[] = {DType::kF4, DType::kF8E4M3, DType::kF8E8M0, DType::kBF16, DType::kF32, DType::kF64};

class ClassScanTest : public ::testing::TestWithParam<std::string> {
 protected:
  WithSimd with_{GetParam()};
};

TEST_P(ClassScanTest, CountsNumbersAndFindsAsTheScalarSpecificationDoes) {
  Random random(1);
  for (const DType dtype : kDTypes) {
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    const size_t most_classes = std::min<uint64_t>(kMaxClasses, view.mask);
    for (int round = 0; round < 150; ++round) {
      const MagnitudeClasses classes = RandomClasses(view, static_cast<int>(1 + random() % most_classes), random);
      const size_t units = random() % 700;
      const size_t offset = random() % 9;
      const Bytes buffer = RandomBytes(offset + units * static_cast<size_t>(DTypeUnit(dtype)), random);
      const ByteSpan bytes = ByteSpan(buffer).subspan(offset);
      const size_t elements = ElementsIn(bytes, view), rows_bytes = RowsBytes(elements, classes.count());
      std::vector<uint8_t> rows(rows_bytes + kRowSlack), expected_rows(rows_bytes);
      ClassCounts counts{}, expected_counts{};
      counts[0] = expected_counts[0] = 7;
      CountMembers(bytes, classes, rows.data(), counts);
      CountMembersScalar(bytes, classes, expected_rows.data(), expected_counts);
      rows.resize(rows_bytes);
      ASSERT_EQ(rows, expected_rows) << DTypeName(dtype) << " " << elements << " in " << classes.count();
      ASSERT_EQ(counts, expected_counts) << DTypeName(dtype);
      rows.resize(rows_bytes + kRowSlack);

      std::vector<uint32_t> positions;
      const uint64_t one_in = 1 + random() % 50;
      for (uint32_t i = 0; i < elements; ++i) {
        if (random() % one_in == 0) positions.push_back(i);
      }
      ClassCounts first{}, expected_first{};
      for (size_t c = 0; c < kMaxClasses; ++c) first[c] = expected_first[c] = static_cast<uint32_t>(random() % 1000);
      const ClassCounts before = first;
      std::vector<uint8_t> class_of(positions.size()), expected_class(positions.size());
      std::vector<uint32_t> number(positions.size()), expected_number(positions.size());
      NumberMembers(bytes, classes, rows.data(), positions, first, class_of.data(), number.data());
      NumberMembersScalar(bytes, classes, positions, expected_first, expected_class.data(), expected_number.data());
      ASSERT_EQ(class_of, expected_class) << DTypeName(dtype);
      ASSERT_EQ(number, expected_number) << DTypeName(dtype);
      ASSERT_EQ(first, expected_first) << DTypeName(dtype);

      // Back again: what was numbered is found where it was.
      std::array<std::vector<uint32_t>, kMaxClasses> numbers, payloads;
      for (size_t i = 0; i < positions.size(); ++i) {
        numbers[class_of[i]].push_back(number[i] - before[class_of[i]]);
        payloads[class_of[i]].push_back(static_cast<uint32_t>(i));
      }
      WantedMembers wanted, expected_wanted;
      for (size_t c = 0; c < kMaxClasses; ++c) {
        wanted.Add(static_cast<int>(c), numbers[c], payloads[c].data());
        expected_wanted.Add(static_cast<int>(c), numbers[c], payloads[c].data());
      }
      std::vector<uint32_t> found(positions.size()), found_payloads(positions.size()), expected_found(positions.size());
      ASSERT_EQ(FindMembers(bytes, classes, rows.data(), wanted, 5, found.data(), found_payloads.data()),
                positions.size())
          << DTypeName(dtype) << " " << elements << " in " << classes.count();
      ASSERT_EQ(FindMembersScalar(bytes, classes, expected_wanted, 5, expected_found.data(), found_payloads.data()),
                positions.size());
      ASSERT_EQ(found, expected_found) << DTypeName(dtype);
      for (size_t i = 0; i < positions.size(); ++i) {
        ASSERT_EQ(found[i], positions[i] + 5);
        ASSERT_EQ(found_payloads[i], i);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, ClassScanTest, ::testing::ValuesIn(SimdNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace skerry
