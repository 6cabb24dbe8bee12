#include "skerry/diff/fp8_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>

#include "skerry/diff/fp8_block_kernel.h"
#include "tests/testing/checkpoints.h"

namespace skerry {
namespace {

constexpr std::array kPolicies = {Fp8Scales::kFrozen, Fp8Scales::kRecompute, Fp8Scales::kPowerOfTwo};

double ValueOf(uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

// By the definition: the nearest of all codes, and of two as near the even one.
uint8_t NearestCode(float value) {
  const double size = std::fabs(static_cast<double>(value));
  uint8_t best = 0;
  for (uint8_t code = 1; code < 0x7F; ++code) {
    const double mine = std::fabs(size - ValueOf(code)), other = std::fabs(size - ValueOf(best));
    if (mine < other || (mine == other && (code & 1) == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

TEST(E4M3, EveryCodeRoundsToItself) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // NaN
    EXPECT_EQ(ToE4M3(static_cast<float>(ValueOf(static_cast<uint8_t>(code)))), code);
  }
}

TEST(E4M3, RoundsEveryBF16ToTheNearestCode) {
  for (uint32_t top = 0; top < 65536; ++top) {
    const auto value = std::bit_cast<float>(top << 16);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(ToE4M3(value), NearestCode(value)) << value;
  }
}

TEST(E4M3, RoundsF32ToTheNearestCode) {
  Random random(1);
  for (int i = 0; i < 300'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(ToE4M3(value), NearestCode(value)) << value;
  }
  // Half way between two codes, and on either side of it.
  for (uint8_t code = 0; code < 0x7E; ++code) {
    const auto half = static_cast<float>((ValueOf(code) + ValueOf(static_cast<uint8_t>(code + 1))) / 2);
    for (const float value : {half, std::nextafter(half, 0.0f), std::nextafter(half, 500.0f)}) {
      ASSERT_EQ(ToE4M3(value), NearestCode(value)) << value;
      ASSERT_EQ(ToE4M3(-value), NearestCode(-value)) << value;
    }
  }
}

TEST(Fp8Scale, IsThatOfTheLargestMagnitude) {
  const Fp8Scale scale = MakeFp8Scale(Fp8Scales::kRecompute, 3.5f);
  EXPECT_EQ(scale.forward, 1 / 3.5f * 448);
  EXPECT_EQ(scale.inverse, 1 / scale.forward);
  for (const float nothing : {0.0f, FLT_TRUE_MIN, 1e-36f}) {
    EXPECT_EQ(MakeFp8Scale(Fp8Scales::kRecompute, nothing).forward, 1) << nothing;
    EXPECT_EQ(MakeFp8Scale(Fp8Scales::kRecompute, nothing).inverse, 1) << nothing;
  }
  EXPECT_TRUE(std::isfinite(MakeFp8Scale(Fp8Scales::kRecompute, 1.4e-36f).forward));
  EXPECT_GT(MakeFp8Scale(Fp8Scales::kRecompute, FLT_MAX).forward, 0);
}

TEST(Fp8Scale, IsRoundedUpToAPowerOfTwo) {
  const auto inverse = [](float amax) { return MakeFp8Scale(Fp8Scales::kPowerOfTwo, amax).inverse; };
  EXPECT_EQ(inverse(448), 1);
  EXPECT_EQ(inverse(449), 2);
  EXPECT_EQ(inverse(1.75f), 0x1p-8f);
  EXPECT_EQ(inverse(1.76f), 0x1p-7f);
  EXPECT_EQ(inverse(0), 1);
  EXPECT_EQ(inverse(FLT_TRUE_MIN), FLT_MIN);
  EXPECT_EQ(inverse(FLT_MAX), 0x1p120f);
  // Within what the logarithm's own rounding hides: 1.75 and three units of its last place at 2^-8.
  EXPECT_EQ(inverse(std::nextafter(1.75f, 2.0f)), 0x1p-8f);
}

TEST(Fp8Scale, StaysUntilAWeightClips) {
  EXPECT_TRUE(Fp8ScaleStays(0.5f, 232));
  EXPECT_FALSE(Fp8ScaleStays(0.5f, std::nextafter(232.0f, 300.0f)));
  EXPECT_TRUE(Fp8ScaleStays(0.5f, 0));
  EXPECT_TRUE(Fp8ScaleStays(1, 0));
  EXPECT_FALSE(Fp8ScaleStays(1, 1e-3f));  // what a block of zeros got
  for (const float unfit : {0.0f, -1.0f, std::nanf(""), HUGE_VALF, 0x1p-129f}) {
    EXPECT_FALSE(Fp8ScaleStays(unfit, 0)) << unfit;
  }
}

TEST(Fp8Scale, IsStoredAsAnExponentToo) {
  std::byte stored;
  for (int code = 0; code < 255; ++code) {
    stored = static_cast<std::byte>(code);
    const float value = LoadFp8Scale(&stored, DType::kF8E8M0);
    EXPECT_EQ(value, std::ldexp(1.0f, code - 127));
    StoreFp8Scale(&stored, DType::kF8E8M0, value);
    EXPECT_EQ(static_cast<int>(stored), code);
  }
  stored = std::byte{255};
  EXPECT_TRUE(std::isnan(LoadFp8Scale(&stored, DType::kF8E8M0)));
}

TEST(Fp8Scale, PoliciesHaveNames) {
  EXPECT_EQ(Fp8ScalesFromName("frozen"), Fp8Scales::kFrozen);
  EXPECT_EQ(Fp8ScalesFromName("recompute"), Fp8Scales::kRecompute);
  EXPECT_EQ(Fp8ScalesFromName("power-of-two"), Fp8Scales::kPowerOfTwo);
  EXPECT_EQ(Fp8ScalesFromName("Frozen"), std::nullopt);
}

// One row of blocks with what it owns: masters, and the codes and scales that were served for them before a step.
struct Served {
  Served(size_t rows, size_t columns, DType dtype, DType scale_dtype, size_t skew)
      : rows(rows),
        columns(columns),
        dtype(dtype),
        scale_dtype(scale_dtype),
        skew(skew),
        masters(skew + rows * columns * static_cast<size_t>(DTypeUnit(dtype))),
        codes(skew + rows * columns),
        scales((columns + kFp8BlockSide - 1) / kFp8BlockSide * static_cast<size_t>(DTypeUnit(scale_dtype))) {}

  Fp8BlockRow row() const {
    return {.masters = masters.data() + skew,
            .dtype = dtype,
            .rows = rows,
            .columns = columns,
            .codes = codes.data() + skew,
            .scales = scales.data(),
            .scale_dtype = scale_dtype};
  }
  float at(size_t i) const {
    if (dtype == DType::kF32) return LoadLe<float>(masters.data() + skew + 4 * i);
    return std::bit_cast<float>(static_cast<uint32_t>(LoadLe<uint16_t>(masters.data() + skew + 2 * i)) << 16);
  }
  void set(size_t i, float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (dtype == DType::kF32) return StoreLe(masters.data() + skew + 4 * i, bits);
    StoreLe(masters.data() + skew + 2 * i, static_cast<uint16_t>(bits >> 16));
  }
  float inverse(size_t i) const {
    const size_t block = i % columns / kFp8BlockSide;
    return LoadFp8Scale(scales.data() + block * static_cast<size_t>(DTypeUnit(scale_dtype)), scale_dtype);
  }
  // Serves these changes.
  void Follow(const Fp8RowChanges& changes) {
    for (size_t i = 0; i < changes.positions.size(); ++i) codes[skew + changes.positions[i]] = changes.codes[i];
    scales = changes.scales;
  }

  size_t rows, columns;
  DType dtype, scale_dtype;
  size_t skew;
  Bytes masters, codes, scales;
};

// What an optimizer may do to weights, and what else a tensor may hold.
void Step(Served& served, float most, Random& random) {
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < served.rows * served.columns; ++i) served.set(i, served.at(i) + most * normal(random));
}

Served RandomServed(Random& random) {
  const size_t rows = random() % 3 == 0 ? 1 + random() % 128 : 1 + random() % 5;
  const size_t columns = random() % 3 == 0 ? 128 * (1 + random() % 4) : 1 + random() % 700;
  const DType dtype = random() % 2 == 0 ? DType::kF32 : DType::kBF16;
  Served served(rows, columns, dtype, random() % 2 == 0 ? DType::kF32 : DType::kF8E8M0, random() % 5);
  Step(served, std::ldexp(1.0f, static_cast<int>(random() % 40) - 30), random);
  for (uint64_t odd = random() % 4 == 0 ? random() % 9 : 0; odd > 0; --odd) {
    const size_t i = random() % (rows * columns);
    served.set(i, std::array{0.0f, -0.0f, FLT_TRUE_MIN, -1e-39f, 3e38f, -FLT_MAX}[random() % 6]);
  }
  if (random() % 8 == 0) std::ranges::fill(served.masters, std::byte{});
  Fp8RowChanges changes;
  std::ranges::fill(served.scales, std::byte{});
  CompareFp8BlockRowScalar(served.row(), Fp8Scales::kPowerOfTwo, changes);
  served.Follow(changes);
  return served;
}

class Fp8BlockTest : public ::testing::TestWithParam<std::string> {
 protected:
  WithSimd with_{GetParam()};
};

// Every sign, exponent and leading fraction, with all that decides a rounding behind them.
TEST_P(Fp8BlockTest, RoundsAsTheScalarSpecificationDoes) {
  constexpr size_t kCount = 65536 + 77;
  const std::vector<float> forward(kCount / kFp8BlockSide + 1, 1);
  const Bytes codes(kCount);
  Bytes masters(4 * kCount + 1), made(kCount);
  std::vector<uint32_t> positions(kCount);
  for (const uint32_t tail : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
    std::vector<uint32_t> expected;
    for (size_t i = 0; i < kCount; ++i) {
      const auto bits = static_cast<uint32_t>(i << 16) | tail;
      const auto value = std::bit_cast<float>(bits);
      const bool fits = std::fabs(value) <= kE4M3Clips;
      StoreLe(masters.data() + 1 + 4 * i, fits ? value : 0.0f);
      if (fits && ToE4M3(value) != 0) expected.push_back(static_cast<uint32_t>(i));
    }
    const Fp8RowCompared compared = CompareFp8RowVector(masters.data() + 1, DType::kF32, kCount, forward.data(),
                                                        codes.data(), positions.data(), made.data());
    ASSERT_EQ(compared.changed, expected.size());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), positions.begin()));
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto value = LoadLe<float>(masters.data() + 1 + 4 * expected[i]);
      ASSERT_EQ(static_cast<uint8_t>(made[i]), ToE4M3(value)) << value;
    }
    ASSERT_EQ(compared.largest, tail == 0 ? std::bit_cast<uint32_t>(kE4M3Clips) : 0x43E70000 | tail);
  }
}

TEST_P(Fp8BlockTest, IsWhatTheScalarSpecificationSays) {
  Random random(2);
  Fp8RowChanges changes, expected;
  size_t rescaled = 0, kept = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    Served served = RandomServed(random);
    const Fp8Scales policy = kPolicies[random() % kPolicies.size()];
    if (policy == Fp8Scales::kRecompute && served.scale_dtype == DType::kF8E8M0) continue;
    const float amax = std::fabs(served.at(0)) + FLT_MIN;
    Step(served, amax * std::array{0.0f, 1e-4f, 1e-2f, 1.0f}[random() % 4], random);
    if (random() % 20 == 0) {
      served.set(random() % (served.rows * served.columns), random() % 2 == 0 ? std::nanf("") : -HUGE_VALF);
    }
    if (random() % 20 == 0) served.scales[random() % served.scales.size()] = static_cast<std::byte>(random());
    CompareFp8BlockRowScalar(served.row(), policy, expected);
    CompareFp8BlockRow(served.row(), policy, changes);
    ASSERT_EQ(changes.not_finite, expected.not_finite) << round;
    refused += expected.not_finite.has_value();
    if (expected.not_finite) continue;
    ASSERT_EQ(changes.positions, expected.positions) << round;
    ASSERT_EQ(changes.codes, expected.codes) << round;
    ASSERT_EQ(changes.scales, expected.scales) << round;
    ASSERT_EQ(changes.rescaled, expected.rescaled) << round;
    (expected.rescaled > 0 ? rescaled : kept) += 1;
  }
  // All three were seen.
  EXPECT_GT(rescaled, 20u);
  EXPECT_GT(kept, 20u);
  EXPECT_GT(refused, 2u);
}

// Whatever a step does, no weight is further from its served value than half of a code's step: none was cut off.
TEST_P(Fp8BlockTest, FrozenScalesNeverClip) {
  Random random(3);
  Fp8RowChanges changes;
  uint64_t rescaled = 0, stayed = 0;
  for (int round = 0; round < 20; ++round) {
    Served served = RandomServed(random);
    const float start = std::max(1e-30f, std::fabs(served.at(0)));
    for (int step = 0; step < 4; ++step) {
      Step(served, start * std::array{0.003f, 0.1f, 4.0f}[random() % 3], random);
      CompareFp8BlockRow(served.row(), Fp8Scales::kFrozen, changes);
      if (changes.not_finite) break;  // a step from the largest number
      rescaled += changes.rescaled;
      stayed += served.scales.size() / static_cast<size_t>(DTypeUnit(served.scale_dtype)) - changes.rescaled;
      served.Follow(changes);
      for (size_t i = 0; i < served.rows * served.columns; ++i) {
        const double inverse = served.inverse(i), weight = served.at(i);
        const double code = ValueOf(static_cast<uint8_t>(served.codes[served.skew + i]));
        // Half a step of codes of this exponent, and the roundings of scale and product.
        const double half = std::max(0x1p-10, std::exp2(std::ilogb(std::max(1e-9, std::fabs(code))) - 4));
        ASSERT_LE(std::fabs(weight / inverse - code), half * (1 + 1e-5))
            << weight << " as " << code << " * " << inverse;
      }
    }
  }
  EXPECT_GT(rescaled, 20u);
  EXPECT_GT(stayed, 20u);
}

// Weights of BF16 often lie on the boundary of two codes, and one over the stored scale is not quite what made them.
TEST_P(Fp8BlockTest, WhatDoesNotMoveKeepsItsCode) {
  Random random(4);
  Fp8RowChanges changes;
  uint64_t on_boundary = 0;
  for (int round = 0; round < 40; ++round) {
    Served served(32, 512, DType::kBF16, DType::kF32, 0);
    Step(served, 0.02f, random);
    CompareFp8BlockRow(served.row(), Fp8Scales::kRecompute, changes);
    served.Follow(changes);
    for (size_t i = 0; i < served.rows * served.columns; ++i) {
      on_boundary += ToE4M3(served.at(i) * (1 / served.inverse(i))) != static_cast<uint8_t>(served.codes[i]);
    }
    CompareFp8BlockRow(served.row(), Fp8Scales::kFrozen, changes);
    ASSERT_TRUE(changes.positions.empty());
    // Also where another block of the row is scaled anew.
    served.set(200, 5.0f);
    CompareFp8BlockRow(served.row(), Fp8Scales::kFrozen, changes);
    ASSERT_EQ(changes.rescaled, 1u);
    for (const uint64_t position : changes.positions) ASSERT_EQ(position % 512 / kFp8BlockSide, 1u);
  }
  EXPECT_GT(on_boundary, 5u);
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, Fp8BlockTest, ::testing::ValuesIn(SimdNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace skerry
