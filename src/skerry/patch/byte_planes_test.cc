#include "skerry/patch/byte_planes.h"

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

std::array<const std::byte*, kMaxPlanes> PlanesOf(const Bytes& planes, size_t units) {
  std::array<const std::byte*, kMaxPlanes> at{};
  for (size_t p = 0; p * units < planes.size(); ++p) at[p] = planes.data() + p * units;
  return at;
}

TEST(BytePlanes, AreJoinedToTheSameUnitsOfEveryDType) {
  Random random(1);
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    for (const size_t units : {1u, 2u, 31u, 5000u}) {
      const Bytes values = RandomBytes(units * static_cast<size_t>(DTypeUnit(dtype)), random);
      Bytes planes(values.size()), joined(values.size());
      SplitPlanes(values, dtype, planes.data());
      JoinPlanes(PlanesOf(planes, units), dtype, joined);
      EXPECT_EQ(joined, values) << DTypeName(dtype) << ", " << units;
    }
  }
}

TEST(BytePlanes, HaveTheExponentOfBFloat16InTheUpperAndTheSignAsTheLowestBit) {
  Bytes values(4), planes(4);
  StoreLe<uint16_t>(values.data(), 0x3F80);      // 1, its exponent is 127
  StoreLe<uint16_t>(values.data() + 2, 0xC0A5);  // negative, exponent 129, mantissa 37
  SplitPlanes(values, DType::kBF16, planes.data());
  EXPECT_EQ(planes, (Bytes{std::byte{0}, std::byte{2 * 37 + 1}, std::byte{127}, std::byte{129}}));
}

TEST(BytePlanes, OfIntegersAreTheirBytes) {
  Bytes values(4), planes(4);
  StoreLe<uint32_t>(values.data(), 0x81020384);
  SplitPlanes(values, DType::kI32, planes.data());
  EXPECT_EQ(planes, values);
}

}  // namespace
}  // namespace skerry
