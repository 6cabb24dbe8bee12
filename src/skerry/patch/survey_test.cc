#include "skerry/patch/survey.h"

#include <cmath>

#include "skerry/diff/find_changes.h"
#include "skerry/patch/entropy.h"
#include "skerry/patch/packed_codes.h"
#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Changed(const Bytes& before, const Bytes& after, int unit) {
  const size_t units = before.size() / static_cast<size_t>(unit);
  std::vector<uint32_t> positions(units + 64);
  positions.resize(FindChangesScalar(before.data(), after.data(), units, unit, positions.data()));
  return positions;
}

TEST(Survey, CountsStepsByDtype) {
  Survey survey(true);
  survey.Expect(DType::kBF16, 1);
  survey.Expect(DType::kU8, 1);
  const Bytes before = BitsTensor<uint16_t>("", DType::kBF16, {4}, {0x3F80, 0x3F80, 0x3F80, 0x3F80}).bytes;
  const Bytes after = BitsTensor<uint16_t>("", DType::kBF16, {4}, {0x3F81, 0x3F81, 0x3F7F, 0x3F80}).bytes;
  survey.AddCell(DType::kBF16, before, after, Changed(before, after, 2));
  const ValueTables tables = survey.Values();
  ASSERT_EQ(tables.size(), 2u) << "also for what has not changed in the sample";
  // Two up, one down: weights 129, 65 and 1 for the escape.
  EXPECT_NEAR(tables.at(DType::kBF16).frequency(0), 4096 * 129 / 195, 2);
  EXPECT_NEAR(tables.at(DType::kBF16).frequency(1), 4096 * 65 / 195, 2);
  EXPECT_EQ(tables.at(DType::kU8).frequency(0), 1366u);
  const MagnitudeModels models = survey.Magnitudes();
  EXPECT_EQ(models.size(), 1u) << "integers have no magnitude";
  EXPECT_EQ(models.count(DType::kBF16), 1u);
}

TEST(Survey, AFastPatchNeedsNoMagnitudes) {
  Survey survey(false);
  survey.Expect(DType::kBF16, 1);
  EXPECT_TRUE(survey.Magnitudes().empty());
}

TEST(Survey, OfPackedCodesTheMagnitudeModelSeesCodesAndTheFlatTableBytes) {
  Survey survey(true);
  survey.Expect(DType::kF4, 1);
  // The upper code goes up by one: sixteen for the byte, which is rank 30.
  const Bytes before(100, std::byte{0x22}), after(100, std::byte{0x32});
  survey.AddCell(DType::kF4, before, after, Changed(before, after, 1));
  EXPECT_GT(survey.Values().at(DType::kF4).frequency(16), 4000u);
  EXPECT_GT(survey.Magnitudes().at(DType::kF4).values(0).frequency(0), 4000u);
}

TEST(Survey, BytesAreTwoCodesWhereTheyChangeLikeThem) {
  Random random(22);
  const Bytes before = RandomBytes(10'000, random);
  Bytes codes = before, numbers = before;
  for (size_t i = 0; i < before.size(); i += 100) {
    codes[i] ^= random() % 2 == 0 ? std::byte{0x10} : std::byte{0x01};
    numbers[i] = static_cast<std::byte>(std::to_integer<int>(numbers[i]) + 1);
  }
  const auto models = [&](const Bytes& after) {
    Survey survey(true);
    survey.Expect(DType::kU8, 1);
    survey.AddCell(DType::kU8, before, after, Changed(before, after, 1));
    return survey.Magnitudes();
  };
  EXPECT_EQ(models(codes).count(DType::kU8), 1u);
  EXPECT_TRUE(models(numbers).empty());
  EXPECT_TRUE(models(before).empty());
}

TEST(PackedCodes, ChangedOnesAreNamedLowerHalfFirst) {
  const Bytes before = {std::byte{0x12}, std::byte{0x34}, std::byte{0x56}};
  const Bytes after = {std::byte{0x13}, std::byte{0x34}, std::byte{0xA7}};
  std::vector<std::tuple<uint32_t, int, int>> seen;
  ForChangedCodes(before, after, std::vector<uint32_t>{0, 2},
                  [&](uint32_t code, uint8_t from, uint8_t to) { seen.emplace_back(code, from, to); });
  EXPECT_THAT(seen, ElementsAre(std::tuple(0, 2, 3), std::tuple(4, 6, 7), std::tuple(5, 5, 10)));
}

TEST(PositionBits, AreTheBinaryEntropy) {
  EXPECT_DOUBLE_EQ(PositionBits(500, 1000), 1000);
  EXPECT_DOUBLE_EQ(PositionBits(0, 1000), 0);
  EXPECT_DOUBLE_EQ(PositionBits(1000, 1000), 0);
  EXPECT_DOUBLE_EQ(PositionBits(0, 0), 0);
  EXPECT_NEAR(PositionBits(10, 1000), 1000 * (0.01 * std::log2(100) + 0.99 * std::log2(1 / 0.99)), 1e-9);
  EXPECT_NEAR(PositionBits(10, 1000), PositionBits(990, 1000), 1e-9);
}

}  // namespace
}  // namespace skerry
