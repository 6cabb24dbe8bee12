#include "skerry/diff/narrow.h"

#include <bit>
#include <cmath>

#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

uint16_t Narrow(float value, DType to) {
  const auto bits = std::bit_cast<uint32_t>(value);
  Bytes in(4), out(2);
  StoreLe(in.data(), bits);
  NarrowF32Scalar(in.data(), 1, to, out.data());
  return LoadLe<uint16_t>(out.data());
}

TEST(Narrow, RoundsToTheNearestAndTiesToEven) {
  const auto bf16 = [](float value) { return Narrow(value, DType::kBF16); };
  EXPECT_EQ(bf16(1.0f), 0x3F80);
  EXPECT_EQ(bf16(1.0f + 0x1p-8f), 0x3F80);             // half way, down to even
  EXPECT_EQ(bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);  // just above
  EXPECT_EQ(bf16(1.0f + 0x1p-7f + 0x1p-8f), 0x3F82);   // half way, up to even
  EXPECT_EQ(bf16(-1.0f - 0x1p-7f - 0x1p-8f), 0xBF82);  // the same below zero
  EXPECT_EQ(bf16(0x1.FFp127f), 0x7F80);                // beyond the largest
  EXPECT_EQ(bf16(-0.0f), 0x8000);
  EXPECT_EQ(bf16(0x1p-149f), 0x0000);  // F32's smallest is less than half of BF16's
  EXPECT_EQ(bf16(0x1p-133f), 0x0001);  // BF16's smallest
  EXPECT_EQ(bf16(std::nanf("")) & 0x7FC0, 0x7FC0);
  EXPECT_EQ(bf16(HUGE_VALF), 0x7F80);
  const auto f16 = [](float value) { return Narrow(value, DType::kF16); };
  EXPECT_EQ(f16(1.0f + 0x1p-11f), 0x3C00);
  EXPECT_EQ(f16(1.0f + 0x1p-10f + 0x1p-11f), 0x3C02);
  EXPECT_EQ(f16(65504.0f), 0x7BFF);
  EXPECT_EQ(f16(65519.996f), 0x7BFF);
  EXPECT_EQ(f16(65520.0f), 0x7C00);
  EXPECT_EQ(f16(0x1p-14f), 0x0400);  // the smallest normal one
  EXPECT_EQ(f16(0x1p-24f), 0x0001);  // the smallest of all
  EXPECT_EQ(f16(0x1p-25f), 0x0000);  // half of it, to even
  EXPECT_EQ(f16(0x1.8p-24f), 0x0002);
  EXPECT_EQ(f16(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(f16(-HUGE_VALF), 0xFC00);
}

class NarrowTest : public ::testing::TestWithParam<std::string> {
 protected:
  WithSimd with_{GetParam()};
};

// Every sign, exponent and leading fraction, with all that decides a rounding behind them.
TEST_P(NarrowTest, IsWhatTheScalarSpecificationSays) {
  const std::array<uint32_t, 8> tails = {0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0xFFFF};
  const size_t count = 65536 + 5, skew = 1;
  Bytes in(4 * count + skew), out(2 * count + skew), expected(2 * count);
  for (const uint32_t tail : tails) {
    for (size_t i = 0; i < count; ++i) {
      StoreLe(in.data() + skew + 4 * i, static_cast<uint32_t>(i << 16) | tail);
    }
    for (const DType to : {DType::kBF16, DType::kF16}) {
      NarrowF32(in.data() + skew, count, to, out.data() + skew);
      NarrowF32Scalar(in.data() + skew, count, to, expected.data());
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + skew)) << DTypeName(to) << " " << tail;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Narrow, NarrowTest, ::testing::ValuesIn(SimdNames()));

}  // namespace
}  // namespace skerry
