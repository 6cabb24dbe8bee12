#include "skerry/patch/magnitude_model.h"

#include "skerry/base/hash.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

SymbolTable TableWith(uint16_t first) {
  SymbolTable::Frequencies frequencies{};
  frequencies[0] = first;
  frequencies[31] = static_cast<uint16_t>(kProbabilityOne - first);
  return SymbolTable(frequencies);
}

Bytes BytesOf(const MagnitudeModel& model) {
  Bytes bytes;
  ByteWriter writer(bytes);
  model.Serialize(writer);
  return bytes;
}

// classes - 1, distances, shared, and what follows.
Bytes Said(uint8_t more_classes, const std::vector<uint64_t>& distances, uint64_t shared, size_t tables) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.Int<uint8_t>(more_classes);
  for (const uint64_t distance : distances) writer.Varint(distance);
  writer.Varint(shared);
  for (size_t t = 0; t < tables; ++t) TableWith(static_cast<uint16_t>(1 + t)).Serialize(writer);
  return bytes;
}

Result<MagnitudeModel> Parsed(const Bytes& bytes, DType dtype = DType::kBF16) {
  ByteReader reader(bytes);
  SKERRY_ASSIGN(MagnitudeModel model, MagnitudeModel::Parse(reader, *MagnitudeViewOf(dtype)));
  EXPECT_TRUE(reader.AtEnd());
  return model;
}

TEST(MagnitudeModel, TravelsAsDistancesSharedTablesAndTheOthers) {
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kBF16), {0x100, 0x3F80, 0x4000});
  // Classes 0 and 3 have their own tables, 1 and 2 that of class 0.
  const MagnitudeModel model(classes, {TableWith(4096), TableWith(128)}, {0, 0, 0, 1});
  // 3; 0x100, 0x3E80, 0x80 as varints; bits 1 and 2; one symbol of 4096; one symbol of 128.
  EXPECT_EQ(ToHex(BytesOf(model)),
            "038002807d8001"
            "06"
            "018020"
            "018001");
  const MagnitudeModel read = Must(Parsed(BytesOf(model)));
  EXPECT_EQ(read.classes().count(), 4);
  EXPECT_EQ(read.classes().lowest(2), 0x3F80u);
  EXPECT_EQ(&read.values(0), &read.values(2));
  EXPECT_EQ(read.values(1).frequency(0), 4096u);
  EXPECT_EQ(read.values(3).frequency(0), 128u);
}

TEST(MagnitudeModel, OneClassIsTheLeast) {
  const MagnitudeModel model(MagnitudeClasses(*MagnitudeViewOf(DType::kF64), {}), {TableWith(4096)}, {0});
  EXPECT_EQ(ToHex(BytesOf(model)), "0000018020");
  EXPECT_EQ(Must(Parsed(BytesOf(model), DType::kF64)).classes().count(), 1);
}

TEST(MagnitudeModel, RandomModelsComeBack) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    const auto dtype = std::array{DType::kF16,    DType::kBF16,   DType::kF32, DType::kF64,
                                  DType::kF8E4M3, DType::kF8E8M0, DType::kF4}[random() % 7];
    const MagnitudeView view = *MagnitudeViewOf(dtype);
    std::vector<uint64_t> lowest;
    for (uint64_t bound = 0; lowest.size() + 1 < kMaxClasses && random() % 10 != 0;) {
      bound += 1 + random() % (view.mask / 8 + 1);
      if (bound > view.mask) break;
      lowest.push_back(bound);
    }
    std::vector<SymbolTable> tables;
    std::vector<uint8_t> table_of;
    for (size_t c = 0; c <= lowest.size(); ++c) {
      if (c == 0 || random() % 2 == 0) tables.push_back(TableWith(static_cast<uint16_t>(random() % 4097)));
      table_of.push_back(static_cast<uint8_t>(tables.size() - 1));
    }
    const MagnitudeModel model(MagnitudeClasses(view, lowest), tables, table_of);
    const MagnitudeModel read = Must(Parsed(BytesOf(model), dtype));
    ASSERT_EQ(read.classes().count(), model.classes().count());
    for (int c = 0; c < model.classes().count(); ++c) {
      ASSERT_EQ(read.classes().lowest(c), model.classes().lowest(c));
      ASSERT_EQ(read.values(c).frequencies(), model.values(c).frequencies());
    }
    ASSERT_EQ(BytesOf(read), BytesOf(model));
  }
}

TEST(MagnitudeModel, RefusesClassesThatAreNone) {
  EXPECT_THAT(Parsed(Said(2, {5, 7}, 0, 3)), Succeeds()) << "the rest differs by one thing";
  EXPECT_THAT(Parsed(Said(16, std::vector<uint64_t>(16, 1), 0, 17)), Fails(Code::kCorrupt, HasSubstr("17 magnitude")));
  EXPECT_THAT(Parsed(Said(255, std::vector<uint64_t>(255, 1), 0, 256)), Fails(Code::kCorrupt));
  EXPECT_THAT(Parsed(Said(2, {0, 7}, 0, 3)), Fails(Code::kCorrupt, HasSubstr("class 1 begins at 0x0")));
  EXPECT_THAT(Parsed(Said(2, {5, 0}, 0, 3)), Fails(Code::kCorrupt, HasSubstr("class 2 begins at 0x5")));
  EXPECT_THAT(Parsed(Said(2, {0x7FFF, 1}, 0, 3)), Fails(Code::kCorrupt, HasSubstr("class 2 begins at 0x8000")));
  EXPECT_THAT(Parsed(Said(2, {5, 0x8000}, 0, 3)), Fails(Code::kCorrupt, HasSubstr("beyond its dtype")));
  EXPECT_THAT(Parsed(Said(2, {5, ~uint64_t{0}}, 0, 3)), Fails(Code::kCorrupt));
  const uint64_t most = MagnitudeViewOf(DType::kF64)->mask;
  EXPECT_THAT(Parsed(Said(1, {most}, 0, 2), DType::kF64), Succeeds());
  EXPECT_THAT(Parsed(Said(2, {most, most}, 0, 3), DType::kF64), Fails(Code::kCorrupt));
  EXPECT_THAT(Parsed(Said(3, {most, most, most}, 0, 4), DType::kF64), Fails(Code::kCorrupt)) << "nor past 2^64";
  EXPECT_THAT(Parsed(Said(7, std::vector<uint64_t>(7, 1), 0, 8), DType::kF4), Succeeds()) << "as many as magnitudes";
  EXPECT_THAT(Parsed(Said(8, std::vector<uint64_t>(8, 1), 0, 9), DType::kF4), Fails(Code::kCorrupt));
}

TEST(MagnitudeModel, RefusesToShareATableThatIsNotThere) {
  EXPECT_THAT(Parsed(Said(2, {5, 7}, 0b110, 1)), Succeeds());
  EXPECT_THAT(Parsed(Said(2, {5, 7}, 0b001, 2)), Fails(Code::kCorrupt, HasSubstr("malformed"))) << "the first class";
  EXPECT_THAT(Parsed(Said(2, {5, 7}, 0b1000, 3)), Fails(Code::kCorrupt, HasSubstr("malformed"))) << "a fourth class";
  EXPECT_THAT(Parsed(Said(2, {5, 7}, uint64_t{1} << 63, 3)), Fails(Code::kCorrupt, HasSubstr("malformed")));
}

TEST(MagnitudeModel, RefusesEveryTruncation) {
  const Bytes bytes = Said(3, {5, 7, 300}, 0b100, 3);
  Must(Parsed(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Parsed(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size))), Fails(Code::kCorrupt))
        << size;
  }
}

}  // namespace
}  // namespace skerry
