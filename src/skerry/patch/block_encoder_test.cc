#include "skerry/patch/block_encoder.h"

#include <algorithm>

#include "skerry/diff/find_changes.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/sparse_flat.h"
#include "skerry/patch/survey.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

// The two sides of a block of one run, and what a survey of it gives.
struct Sides {
  DType dtype;
  Bytes before, after;
  ValueTables values;
  MagnitudeModels magnitudes;

  size_t unit() const { return static_cast<size_t>(DTypeUnit(dtype)); }
  std::vector<uint32_t> Positions(size_t from, size_t units) const {
    std::vector<uint32_t> positions(units + 64);
    positions.resize(FindChangesScalar(before.data() + from * unit(), after.data() + from * unit(), units,
                                       static_cast<int>(unit()), positions.data()));
    return positions;
  }
  // What the encoder would use if this were a stride-th part of a patch.
  void TakeSurvey(uint64_t stride) {
    Survey survey(true);
    survey.Expect(dtype, stride);
    survey.AddCell(dtype, before, after, Positions(0, before.size() / unit()));
    values = survey.Values();
    magnitudes = survey.Magnitudes();
  }
  const MagnitudeModel* model() const {
    const auto at = magnitudes.find(dtype);
    return at != magnitudes.end() ? &at->second : nullptr;
  }

  // In cells of `cell` units.
  EncodedBlock Encode(BlockEncoder& encoder, size_t cell, bool with_magnitudes = true) const {
    encoder.Begin(dtype, &values.at(dtype), with_magnitudes ? model() : nullptr);
    const size_t units = before.size() / unit();
    RunningDigest moved;
    for (size_t at = 0; at < units; at += cell) {
      const size_t count = std::min(cell, units - at);
      moved +=
          encoder.AddCell(ByteSpan(before).subspan(at * unit(), count * unit()),
                          ByteSpan(after).subspan(at * unit(), count * unit()), Positions(at, count), at * unit() / 8);
    }
    EXPECT_EQ(moved, DigestWordsScalar(after, 0) - DigestWordsScalar(before, 0)) << DTypeName(dtype);
    EXPECT_EQ(encoder.units(), units);
    EXPECT_EQ(encoder.changed(), Positions(0, units).size());
    return Must(encoder.Close([&]() -> Result<Bytes> { return after; }));
  }
  EncodedBlock Encode(size_t cell = 1 << 16) const {
    BlockEncoder encoder;
    return Encode(encoder, cell);
  }

  void ExpectDecodes(const EncodedBlock& block) const {
    const size_t units = before.size() / unit();
    BlockChanges changes{.unit = static_cast<int>(unit())};
    const OldRun run{.bytes = before};
    RunningDigest moved;
    switch (block.entry.method) {
      case Method::kDense: Must(DecodeDense(block.payload, units, dtype, changes)); break;
      case Method::kSparseFlat:
        Must(DecodeSparseFlat(block.payload, block.entry.changed, dtype, values.at(dtype), {&run, 1}, changes,
                              {&moved, 1}));
        break;
      case Method::kSparseMagnitude:
        Must(DecodeSparseMagnitude(block.payload, block.entry.changed, dtype, *model(), {&run, 1}, changes,
                                   {&moved, 1}));
    }
    EXPECT_EQ(BlockChecksum(changes), block.entry.checksum);
    EXPECT_EQ(block.entry.changed, Positions(0, units).size());
    Bytes applied = before;
    ApplyBlock(changes, applied.data());
    EXPECT_TRUE(applied == after) << DTypeName(dtype);
  }
};

Sides NudgedSides(DType dtype, size_t elements, double density, Random& random) {
  TestTensor tensor = RandomTensor("", dtype, {elements}, random);
  Sides sides{.dtype = dtype, .before = tensor.bytes, .after = {}, .values = {}, .magnitudes = {}};
  Nudge(tensor, density, random);
  sides.after = tensor.bytes;
  sides.after.front() ^= std::byte{1};  // at least one change
  if (sides.after == sides.before) sides.after.back() ^= std::byte{1};
  return sides;
}

// Small magnitudes move on by one, larger ones rarely: as an optimizer does it.
Sides OptimizerSides(size_t elements, Random& random) {
  Sides sides{.dtype = DType::kBF16,
              .before = RandomTensor("", DType::kBF16, {elements}, random).bytes,
              .after = {},
              .values = {},
              .magnitudes = {}};
  sides.after = sides.before;
  for (size_t i = 0; i < elements; ++i) {
    const auto bits = LoadLe<uint16_t>(sides.before.data() + 2 * i);
    const int exponent = bits >> 7 & 0xFF;
    if (random() >> 11 >= uint64_t{1} << std::clamp(53 + 114 - exponent, 0, 53)) continue;
    StoreLe(sides.after.data() + 2 * i, AfterStep<uint16_t>(bits, random() % 2, true));
  }
  return sides;
}

TEST(BlockEncoder, FewChangesTravelFlat) {
  Random random(1);
  Sides sides = NudgedSides(DType::kBF16, 50'000, 0.00004, random);
  sides.TakeSurvey(1);
  const EncodedBlock block = sides.Encode();
  EXPECT_EQ(block.entry.method, Method::kSparseFlat);
  sides.ExpectDecodes(block);
}

TEST(BlockEncoder, WhereMagnitudesTellItUsesThem) {
  Random random(2);
  Sides sides = OptimizerSides(60'000, random);
  sides.TakeSurvey(1);
  ASSERT_GT(sides.model()->classes().count(), 3);
  const EncodedBlock block = sides.Encode();
  EXPECT_EQ(block.entry.method, Method::kSparseMagnitude);
  sides.ExpectDecodes(block);
  BlockEncoder encoder;
  const EncodedBlock flat = sides.Encode(encoder, 1 << 16, false);
  EXPECT_EQ(flat.entry.method, Method::kSparseFlat);
  EXPECT_LT(block.payload.size(), 0.9 * static_cast<double>(flat.payload.size()));
  EXPECT_EQ(flat.entry.checksum, block.entry.checksum) << "it covers what a block decodes to";
}

TEST(BlockEncoder, RandomNewBitsTravelWhole) {
  Random random(3);
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    const size_t bytes = 24'000;
    Sides sides{.dtype = dtype,
                .before = RandomBytes(bytes, random),
                .after = RandomBytes(bytes, random),
                .values = {},
                .magnitudes = {}};
    sides.TakeSurvey(1);
    const EncodedBlock block = sides.Encode();
    EXPECT_EQ(block.entry.method, Method::kDense) << DTypeName(dtype);
    EXPECT_LE(block.payload.size(), bytes + 5 * sides.unit());
    sides.ExpectDecodes(block);
  }
}

// What a dense block is checked by covers all units; what it counts are those that changed.
TEST(BlockEncoder, ADenseBlockCountsOnlyWhatChanged) {
  Random random(4);
  Sides sides{.dtype = DType::kU8,
              .before = RandomBytes(5000, random),
              .after = Bytes(5000, std::byte{0x55}),
              .values = {},
              .magnitudes = {}};
  std::fill_n(sides.before.begin(), 1000, std::byte{0x55});
  sides.TakeSurvey(1);
  const EncodedBlock block = sides.Encode();
  EXPECT_EQ(block.entry.method, Method::kDense) << "5000 equal bytes pack well";
  EXPECT_LT(block.entry.changed, 4001u);
  sides.ExpectDecodes(block);
}

TEST(BlockEncoder, EveryDtypeAtEveryDensityDecodesInCellsOfAnySize) {
  Random random(5);
  BlockEncoder encoder;  // one for all: nothing is left over from block to block
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    for (const double density : {0.0002, 0.02, 0.3, 1.0}) {
      Sides sides = NudgedSides(dtype, 8000, density, random);
      sides.TakeSurvey(1);
      EncodedBlock first;
      for (const size_t cell : {8u, 800u, 65'536u}) {
        const EncodedBlock block = sides.Encode(encoder, cell);
        sides.ExpectDecodes(block);
        if (first.payload.empty()) first = block;
        EXPECT_EQ(block.payload, first.payload) << "cells leave no trace";
      }
    }
  }
}

TEST(BlockEncoder, StepsThatTheSampleLackedAreEscaped) {
  Random random(6);
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64, DType::kI8, DType::kF8E5M2, DType::kF4}) {
    // The survey saw nothing but steps to the next value.
    Sides sides = NudgedSides(dtype, 4000, 0.05, random);
    Sides sampled = sides;
    sampled.after = sampled.before;
    for (size_t i = 0; i < sampled.after.size(); i += 9 * sides.unit()) sampled.after[i] ^= std::byte{1};
    sampled.TakeSurvey(100);
    sides.values = sampled.values;
    sides.magnitudes = sampled.magnitudes;
    bool lacked = false;
    for (uint32_t s = 0; s < kSymbols; ++s) lacked |= sides.values.at(dtype).frequency(s) == 0;
    EXPECT_TRUE(lacked);
    BlockEncoder encoder;
    sides.ExpectDecodes(sides.Encode(encoder, 1 << 16, true));
    sides.ExpectDecodes(sides.Encode(encoder, 1 << 16, false));
  }
}

TEST(BlockEncoder, AnErrorInReadingTheNewBytesIsPassedOn) {
  Random random(7);
  Sides sides = NudgedSides(DType::kU8, 1000, 1, random);
  sides.after = RandomBytes(1000, random);
  sides.TakeSurvey(1);
  BlockEncoder encoder;
  encoder.Begin(sides.dtype, &sides.values.at(sides.dtype), nullptr);
  encoder.AddCell(sides.before, sides.after, sides.Positions(0, 1000), 0);
  EXPECT_THAT(encoder.Close([]() -> Result<Bytes> { return Fail(Code::kIo, "gone"); }), Fails(Code::kIo));
}

TEST(BlockEncoder, SmallBlocksDoNotAskForAllBytes) {
  Random random(8);
  Sides sides = NudgedSides(DType::kBF16, 20'000, 0.01, random);
  sides.TakeSurvey(1);
  BlockEncoder encoder;
  encoder.Begin(sides.dtype, &sides.values.at(sides.dtype), sides.model());
  encoder.AddCell(sides.before, sides.after, sides.Positions(0, 20'000), 0);
  EXPECT_THAT(encoder.Close([]() -> Result<Bytes> { return Fail(Code::kIo, "not to be read"); }), Succeeds());
}

TEST(BlockEncoder, WhatHasNoOldValueTravelsWhole) {
  Random random(9);
  const Bytes after = RandomBytes(4000, random);
  const EncodedBlock block = BlockEncoder::Whole(DType::kF32, after);
  EXPECT_EQ(block.entry.method, Method::kDense);
  EXPECT_EQ(block.entry.changed, 1000u);
  BlockChanges changes{.unit = 4};
  Must(DecodeDense(block.payload, 1000, DType::kF32, changes));
  EXPECT_EQ(changes.values, after);
  EXPECT_EQ(BlockChecksum(changes), block.entry.checksum);
}

}  // namespace
}  // namespace skerry
