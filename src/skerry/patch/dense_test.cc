#include "skerry/patch/dense.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

Result<Bytes> Decoded(ByteSpan payload, uint64_t units, int unit) {
  BlockChanges changes{.unit = unit, .positions = {7}};
  SKERRY_TRY(DecodeDense(payload, units, changes));
  EXPECT_TRUE(changes.all);
  EXPECT_TRUE(changes.positions.empty());
  return changes.values;
}

TEST(Dense, GivesBackRandomAndCompressibleUnitsOfEverySize) {
  Random random(1);
  for (const int unit : {1, 2, 4, 8}) {
    for (const uint64_t units : {1u, 2u, 100u, 65536u}) {
      Bytes values = RandomBytes(units * static_cast<uint64_t>(unit), random);
      for (const bool compressible : {false, true}) {
        if (compressible) {
          for (size_t i = 0; i < values.size(); i += static_cast<size_t>(unit)) values[i] = std::byte{0x3F};
        }
        Bytes payload;
        EncodeDense(values, unit, payload);
        EXPECT_LE(payload.size(), values.size() + 5 * static_cast<size_t>(unit));
        EXPECT_EQ(Must(Decoded(payload, units, unit)), values);
      }
    }
  }
}

TEST(Dense, CompressesThePlaneOfTheExponents) {
  Random random(2);
  const TestTensor weights = RandomTensor("w", DType::kBF16, {65536}, random);
  Bytes payload;
  EncodeDense(weights.bytes, 2, payload);
  EXPECT_LT(payload.size(), weights.bytes.size() * 8 / 10);
}

TEST(Dense, RefusesEveryTruncationAndTrailingBytes) {
  Random random(3);
  Bytes values = RandomBytes(200, random);
  for (size_t i = 0; i < 200; i += 2) values[i] = std::byte{1};
  Bytes payload;
  EncodeDense(values, 2, payload);
  for (size_t size = 0; size < payload.size(); ++size) {
    EXPECT_THAT(Decoded(ByteSpan(payload).first(size), 100, 2), Fails(Code::kCorrupt)) << size;
  }
  payload.push_back(std::byte{0});
  EXPECT_THAT(Decoded(payload, 100, 2), Fails(Code::kCorrupt, HasSubstr("after the last plane")));
}

TEST(Dense, RefusesPlanesThatAreTooLongOrHoldAnotherNumberOfUnits) {
  Bytes payload;
  ByteWriter writer(payload);
  writer.Varint(101);
  writer.Raw(Bytes(101));
  EXPECT_THAT(Decoded(payload, 100, 1), Fails(Code::kCorrupt));
  Bytes of_90;
  EncodeDense(Bytes(90), 1, of_90);
  EXPECT_THAT(Decoded(of_90, 100, 1), Fails(Code::kCorrupt));
  EXPECT_THAT(Decoded(of_90, 89, 1), Fails(Code::kCorrupt));
}

}  // namespace
}  // namespace skerry
