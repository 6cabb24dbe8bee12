#include "skerry/patch/dense.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

Result<Bytes> Decoded(ByteSpan payload, uint64_t units, DType dtype) {
  BlockChanges changes{.unit = DTypeUnit(dtype), .positions = {7}};
  SKERRY_TRY(DecodeDense(payload, units, dtype, changes));
  EXPECT_TRUE(changes.all);
  EXPECT_TRUE(changes.positions.empty());
  return changes.values;
}

TEST(Dense, GivesBackRandomAndCompressibleUnitsOfEveryDTypeAndSize) {
  Random random(1);
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    const auto unit = static_cast<size_t>(DTypeUnit(dtype));
    for (const uint64_t units : {1u, 2u, 100u, 8192u, 65536u}) {
      Bytes values = RandomBytes(units * unit, random);
      for (const bool compressible : {false, true}) {
        if (compressible) {
          for (size_t i = 0; i < values.size(); i += unit) values[i] = std::byte{0x3F};
        }
        Bytes payload;
        EncodeDense(values, dtype, payload);
        EXPECT_LE(payload.size(), values.size() + 5 * unit);
        EXPECT_TRUE(Must(Decoded(payload, units, dtype)) == values) << DTypeName(dtype) << ", " << units;
      }
    }
  }
}

// The exponents of normally distributed weights take 2.5 bits, and the rest is noise.
TEST(Dense, CompressesThePlaneOfTheExponents) {
  Random random(2);
  for (const auto& [dtype, most] : {std::pair(DType::kBF16, 0.665), {DType::kF32, 0.833}, {DType::kF16, 0.86}}) {
    for (const uint64_t units : {2000u, 65536u, 200'000u}) {
      const TestTensor weights = RandomTensor("w", dtype, {units}, random);
      Bytes payload;
      EncodeDense(weights.bytes, dtype, payload);
      EXPECT_LT(static_cast<double>(payload.size()), most * static_cast<double>(weights.bytes.size()) + 60)
          << DTypeName(dtype) << ", " << units;
    }
  }
}

TEST(Dense, RotatesFloatsButNotOthers) {
  const Bytes values = {std::byte{0xC1}, std::byte{0x7F}};
  for (const auto& [dtype, low, high] : {std::tuple(DType::kBF16, 0x82, 0xFF), {DType::kU16, 0xC1, 0x7F}}) {
    Bytes payload;
    EncodeDense(values, dtype, payload);
    EXPECT_EQ(payload, (Bytes{std::byte{1}, static_cast<std::byte>(low), std::byte{1}, static_cast<std::byte>(high)}));
  }
}

TEST(Dense, RefusesEveryTruncationAndTrailingBytes) {
  Random random(3);
  Bytes values = RandomBytes(200, random);
  for (size_t i = 0; i < 200; i += 2) values[i] = std::byte{1};
  Bytes payload;
  EncodeDense(values, DType::kBF16, payload);
  for (size_t size = 0; size < payload.size(); ++size) {
    EXPECT_THAT(Decoded(ByteSpan(payload).first(size), 100, DType::kBF16), Fails(Code::kCorrupt)) << size;
  }
  payload.push_back(std::byte{0});
  EXPECT_THAT(Decoded(payload, 100, DType::kBF16), Fails(Code::kCorrupt, HasSubstr("after the last plane")));
}

TEST(Dense, RefusesPlanesThatAreTooLongOrHoldAnotherNumberOfUnits) {
  Bytes payload;
  ByteWriter writer(payload);
  writer.Varint(101);
  writer.Raw(Bytes(101));
  EXPECT_THAT(Decoded(payload, 100, DType::kU8), Fails(Code::kCorrupt));
  Bytes of_90;
  EncodeDense(Bytes(90), DType::kU8, of_90);
  EXPECT_THAT(Decoded(of_90, 100, DType::kU8), Fails(Code::kCorrupt));
  EXPECT_THAT(Decoded(of_90, 89, DType::kU8), Fails(Code::kCorrupt));
}

}  // namespace
}  // namespace skerry
