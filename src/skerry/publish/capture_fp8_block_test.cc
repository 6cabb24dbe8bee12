#include "skerry/publish/capture.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kRows = 700, kColumns = 450, kBlockRows = 6, kBlockColumns = 4;
constexpr size_t kScale = 0, kWeight = 1, kOther = 2;  // in the order of the names

Bytes All(const TensorSource& source, size_t ordinal) {
  Bytes scratch;
  const ByteSpan bytes = Must(source.Read(ordinal, 0, source.layout().tensors()[ordinal].bytes, scratch));
  return Bytes(bytes.begin(), bytes.end());
}

TestModel ModelOf(Bytes codes, Bytes scales, DType scale_dtype) {
  return {.tensors = {{"w.a_scale", scale_dtype, {kBlockRows, kBlockColumns}, std::move(scales)},
                      {"w.b_weight", DType::kF8E4M3, {kRows, kColumns}, std::move(codes)},
                      {"z", DType::kF8E4M3, {64}, Bytes(64)}},
          .side_files = {}};
}

// Every row of blocks by the specification.
TestModel Made(const TestModel& before, const TestTensor& masters, Fp8Scales policy, uint64_t* rescaled) {
  const TestTensor &scales = before.tensors[kScale], &codes = before.tensors[kWeight];
  Bytes new_codes = codes.bytes, new_scales;
  *rescaled = 0;
  for (uint64_t row = 0; row < kRows; row += kFp8BlockSide) {
    Fp8RowChanges changes;
    CompareFp8BlockRowScalar({.masters = masters.bytes.data() + row * kColumns * masters.unit(),
                              .dtype = masters.dtype,
                              .rows = std::min(kFp8BlockSide, kRows - row),
                              .columns = kColumns,
                              .codes = codes.bytes.data() + row * kColumns,
                              .scales = scales.bytes.data() + row / kFp8BlockSide * kBlockColumns * scales.unit(),
                              .scale_dtype = scales.dtype},
                             policy, changes);
    for (size_t i = 0; i < changes.positions.size(); ++i) {
      new_codes[row * kColumns + changes.positions[i]] = changes.codes[i];
    }
    new_scales.insert(new_scales.end(), changes.scales.begin(), changes.scales.end());
    *rescaled += changes.rescaled;
  }
  return ModelOf(std::move(new_codes), std::move(new_scales), scales.dtype);
}

class CaptureFp8BlockTest : public ::testing::Test {
 protected:
  Random random_{5};
  uint64_t rescaled_ = 0;
};

TEST_F(CaptureFp8BlockTest, ReadsAsTheQuantisedMatrixWithItsScales) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const DType scale_dtype : {DType::kF32, DType::kF8E8M0}) {
      TestTensor masters = RandomTensor("w", dtype, {kRows, kColumns}, random_);
      const size_t scale_bytes = kBlockRows * kBlockColumns * static_cast<size_t>(DTypeUnit(scale_dtype));
      const TestModel nothing = ModelOf(Bytes(kRows * kColumns), Bytes(scale_bytes), scale_dtype);
      const TestModel before = Made(nothing, masters, Fp8Scales::kPowerOfTwo, &rescaled_);
      const ModelSource snapshot(before);
      // A bit of the fraction, in one of a hundred.
      for (size_t i = random_() % 100; i < masters.units(); i += 1 + random_() % 200) {
        masters.bytes[(i + 1) * masters.unit() - 2] ^= std::byte{0x20};
      }
      if (dtype == DType::kF32) std::fill_n(masters.bytes.begin() + 70'000, 4000, std::byte{});
      for (const Fp8Scales policy : {Fp8Scales::kFrozen, Fp8Scales::kRecompute, Fp8Scales::kPowerOfTwo}) {
        if (scale_dtype == DType::kF8E8M0 && policy == Fp8Scales::kRecompute) continue;
        const TestModel now = Made(before, masters, policy, &rescaled_);
        for (const int threads : {1, 2}) {
          Capture capture(snapshot, 1, threads);
          EXPECT_EQ(Must(capture.TakeFp8Block(kWeight, kScale, dtype, masters.bytes, policy)), rescaled_);
          EXPECT_EQ(capture.Untaken(), std::vector<size_t>{kOther});
          ASSERT_EQ(All(capture, kWeight), now.tensors[kWeight].bytes);
          ASSERT_EQ(All(capture, kScale), now.tensors[kScale].bytes);
          for (int round = 0; round < 50; ++round) {
            const uint64_t offset = random_() % (kRows * kColumns),
                           length = random_() % (kRows * kColumns - offset) + 1;
            Bytes scratch;
            const ByteSpan part = Must(capture.Read(kWeight, offset, length, scratch));
            ASSERT_TRUE(std::equal(part.begin(), part.end(),
                                   now.tensors[kWeight].bytes.begin() + static_cast<ptrdiff_t>(offset)));
          }
        }
      }
    }
  }
}

// The same masters again change nothing, and nothing is kept.
TEST_F(CaptureFp8BlockTest, KeepsOnlyWhatDiffers) {
  TestTensor masters = RandomTensor("w", DType::kF32, {kRows, kColumns}, random_);
  const TestModel nothing = ModelOf(Bytes(kRows * kColumns), Bytes(4 * kBlockRows * kBlockColumns), DType::kF32);
  const ModelSource snapshot(Made(nothing, masters, Fp8Scales::kRecompute, &rescaled_));
  EXPECT_EQ(rescaled_, kBlockRows * kBlockColumns);
  for (const Fp8Scales policy : {Fp8Scales::kFrozen, Fp8Scales::kRecompute}) {
    Capture capture(snapshot, 1, 2);
    EXPECT_EQ(Must(capture.TakeFp8Block(kWeight, kScale, DType::kF32, masters.bytes, policy)), 0u);
    EXPECT_EQ(capture.kept_bytes(), 0u);
  }
  // One sign, in the last row of blocks.
  masters.bytes.back() ^= std::byte{0x80};
  Capture capture(snapshot, 1, 2);
  EXPECT_EQ(Must(capture.TakeFp8Block(kWeight, kScale, DType::kF32, masters.bytes, Fp8Scales::kFrozen)), 0u);
  EXPECT_EQ(capture.changed(), 1u);
  EXPECT_LT(capture.kept_bytes(), 100u);
}

TEST_F(CaptureFp8BlockTest, NamesWhatDoesNotFitAndTakesNothing) {
  TestTensor masters = RandomTensor("w", DType::kF32, {kRows, kColumns}, random_);
  const ModelSource snapshot(ModelOf(Bytes(kRows * kColumns), Bytes(kBlockRows * kBlockColumns), DType::kF8E8M0));
  Capture capture(snapshot, 1, 2);
  const auto take = [&](size_t weight, size_t scale, DType dtype, ByteSpan values, Fp8Scales policy) {
    const auto taken = capture.TakeFp8Block(weight, scale, dtype, values, policy);
    EXPECT_EQ(capture.Untaken().size(), 3u);
    return taken;
  };
  constexpr auto kFrozen = Fp8Scales::kFrozen;
  EXPECT_THAT(take(9, kScale, DType::kF32, masters.bytes, kFrozen), Fails(Code::kInvalid, HasSubstr("tensor 9 of")));
  EXPECT_THAT(take(kOther, kScale, DType::kF32, masters.bytes, kFrozen),
              Fails(Code::kInvalid, HasSubstr("'z' is F8_E4M3 [64]: FP8 in blocks is")));
  EXPECT_THAT(take(kWeight, kOther, DType::kF32, masters.bytes, kFrozen),
              Fails(Code::kInvalid, HasSubstr("'z' is F8_E4M3 [64]: the scales of 'w.b_weight' (F8_E4M3 [700, 450]) "
                                              "are F32 or F8_E8M0 [6, 4]")));
  EXPECT_THAT(take(kWeight, kScale, DType::kF16, masters.bytes, kFrozen),
              Fails(Code::kInvalid, HasSubstr("'w.b_weight': F16 can't be served")));
  EXPECT_THAT(take(kWeight, kScale, DType::kF32, ByteSpan(masters.bytes).subspan(4), kFrozen),
              Fails(Code::kInvalid, HasSubstr("1259996 bytes of F32 were given, not 1260000")));
  EXPECT_THAT(take(kWeight, kScale, DType::kF32, masters.bytes, Fp8Scales::kRecompute),
              Fails(Code::kInvalid, HasSubstr("'w.a_scale' is F8_E8M0 [6, 4]: scales that are recomputed need F32")));
  for (const uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFF800001u}) {
    TestTensor broken = masters;
    StoreLe(broken.bytes.data() + 4 * (600 * kColumns + 449), bits);
    for (const Fp8Scales policy : {Fp8Scales::kFrozen, Fp8Scales::kPowerOfTwo}) {
      EXPECT_THAT(take(kWeight, kScale, DType::kF32, broken.bytes, policy),
                  Fails(Code::kInvalid, HasSubstr("'w.b_weight': element [600, 449] is NaN or infinite")));
    }
  }
  Must(capture.Take(kScale, 0, DType::kF8E8M0, Bytes(3)));
  EXPECT_THAT(capture.TakeFp8Block(kWeight, kScale, DType::kF32, masters.bytes, kFrozen),
              Fails(Code::kInvalid, HasSubstr("'w.a_scale' is given twice")));
}

}  // namespace
}  // namespace skerry
