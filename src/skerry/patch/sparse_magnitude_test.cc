#include "skerry/patch/sparse_magnitude.h"

#include <algorithm>

#include "skerry/base/hash.h"
#include "skerry/patch/packed_codes.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::vector<DType> DTypesWithAnExponent() {
  std::vector<DType> dtypes;
  for (int code = 0; code < kDTypeCount; ++code) {
    if (MagnitudeViewOf(static_cast<DType>(code))) dtypes.push_back(static_cast<DType>(code));
  }
  return dtypes;
}

SymbolTable TableFor(size_t c) {
  std::array<uint64_t, kSymbols> counts;
  counts.fill(1 + c);
  counts[c % 2] = 300;
  return SymbolTable(SymbolTable::Normalise(counts));
}

// Classes where the bits of random elements are spread over them.
MagnitudeModel ModelOf(DType dtype, int classes) {
  const MagnitudeView view = *MagnitudeViewOf(dtype);
  std::vector<uint64_t> lowest;
  for (int c = 1; c < classes; ++c) {
    lowest.push_back((view.mask + 1) / static_cast<uint64_t>(classes) * static_cast<uint64_t>(c));
  }
  std::vector<SymbolTable> tables;
  std::vector<uint8_t> table_of;
  for (int c = 0; c < classes; ++c) {
    if (c % 3 != 2) tables.push_back(TableFor(static_cast<size_t>(c)));  // every third shares
    table_of.push_back(static_cast<uint8_t>(tables.size() - 1));
  }
  return MagnitudeModel(MagnitudeClasses(view, lowest), tables, table_of);
}

// A block of several runs, encoded by the specification of class_scan.h.
struct Block {
  DType dtype;
  MagnitudeModel model;
  std::vector<Bytes> before, after;
  std::vector<uint32_t> positions;  // of changed units, over all runs
  ClassedChanges classed;
  Bytes payload;

  std::vector<OldRun> runs() const {
    std::vector<OldRun> runs;
    for (size_t r = 0; r < before.size(); ++r) runs.push_back({.bytes = before[r], .first_word = 1000 * r});
    return runs;
  }
  Result<BlockChanges> Decode(ByteSpan bytes, uint64_t count, std::vector<RunningDigest>* moved = nullptr) const {
    BlockChanges changes{.unit = DTypeUnit(dtype), .all = true};
    std::vector<RunningDigest> own(before.size());
    SKERRY_TRY(DecodeSparseMagnitude(bytes, count, dtype, model, runs(), changes, moved != nullptr ? *moved : own));
    return changes;
  }
  Result<BlockChanges> Decode(ByteSpan bytes) const { return Decode(bytes, positions.size()); }

  void ExpectRoundTrip() const {
    SCOPED_TRACE(
        fmt::format("{} in {} classes, {} changes", DTypeName(dtype), model.classes().count(), positions.size()));
    std::vector<RunningDigest> moved(before.size()), expected;
    const BlockChanges changes = Must(Decode(payload, positions.size(), &moved));
    ASSERT_EQ(changes.positions, positions);
    ASSERT_FALSE(changes.all);
    Bytes old_bytes, new_bytes;
    for (size_t r = 0; r < before.size(); ++r) {
      expected.push_back(DigestWordsScalar(after[r], 1000 * r) - DigestWordsScalar(before[r], 1000 * r));
      old_bytes.insert(old_bytes.end(), before[r].begin(), before[r].end());
      new_bytes.insert(new_bytes.end(), after[r].begin(), after[r].end());
    }
    EXPECT_EQ(moved, expected) << "the digests move along";
    ApplyBlock(changes, old_bytes.data());
    ASSERT_TRUE(old_bytes == new_bytes);
  }
};

template <typename T>
void AddRun(Block& block, const Bytes& before, const Bytes& after) {
  const MagnitudeClasses& classes = block.model.classes();
  uint32_t base = 0;
  for (const Bytes& run : block.before) base += static_cast<uint32_t>(run.size() / sizeof(T));
  std::vector<uint32_t> changed;
  for (uint32_t i = 0; i < before.size() / sizeof(T); ++i) {
    const T from = LoadLe<T>(before.data() + i * sizeof(T)), to = LoadLe<T>(after.data() + i * sizeof(T));
    if (from == to) continue;
    block.positions.push_back(base + i);
    changed.push_back(i);
    if (classes.view().bits != 4) block.classed.tokens.push_back(TokenOf(from, to, DTypeIsSignMagnitude(block.dtype)));
  }
  if (classes.view().bits == 4) {
    std::vector<uint32_t> codes;
    ForChangedCodes(before, after, changed, [&](uint32_t code, uint8_t from, uint8_t to) {
      codes.push_back(code);
      block.classed.tokens.push_back(CodeTokenOf(from, to, classes.view().has_sign()));
    });
    changed = codes;
  }
  const size_t had = block.classed.class_of.size();
  block.classed.class_of.resize(had + changed.size());
  block.classed.number_of.resize(had + changed.size());
  NumberMembersScalar(before, classes, changed, block.classed.members, block.classed.class_of.data() + had,
                      block.classed.number_of.data() + had);
  block.before.push_back(before);
  block.after.push_back(after);
}

Block MakeBlock(DType dtype, int classes, const std::vector<size_t>& sizes, double density, Random& random) {
  Block block{.dtype = dtype,
              .model = ModelOf(dtype, classes),
              .before = {},
              .after = {},
              .positions = {},
              .classed = {},
              .payload = {}};
  for (size_t r = 0; r < sizes.size(); ++r) {
    const auto unit = static_cast<size_t>(DTypeUnit(dtype));
    TestTensor tensor{"", dtype, {sizes[r]}, RandomBytes(sizes[r] * unit, random)};
    const Bytes before = tensor.bytes;
    Nudge(tensor, density, random);
    // So that there is a change at all, and at the very ends.
    if (r == 0) tensor.bytes.front() ^= std::byte{1};
    if (r + 1 == sizes.size() && sizes[r] > 0) tensor.bytes.back() ^= std::byte{0x10};
    switch (unit) {
      case 1: AddRun<uint8_t>(block, before, tensor.bytes); break;
      case 2: AddRun<uint16_t>(block, before, tensor.bytes); break;
      case 4: AddRun<uint32_t>(block, before, tensor.bytes); break;
      default: AddRun<uint64_t>(block, before, tensor.bytes);
    }
  }
  EncodeSparseMagnitude(block.model, block.classed, block.payload);
  return block;
}

int MostClasses(DType dtype) { return dtype == DType::kF4 ? 8 : kMaxClasses; }

class SparseMagnitudeTest : public ::testing::TestWithParam<std::string> {
 protected:
  WithSimd with_{GetParam()};
};

TEST_P(SparseMagnitudeTest, GivesBackEveryDtypeAtEveryDensity) {
  Random random(1);
  for (const DType dtype : DTypesWithAnExponent()) {
    for (const int classes : {1, 2, 5, MostClasses(dtype)}) {
      for (const double density : {0.0, 0.003, 0.1, 0.7, 1.0}) {
        for (const size_t units : {1u, 7u, 3000u}) {
          ASSERT_NO_FATAL_FAILURE(MakeBlock(dtype, classes, {units}, density, random).ExpectRoundTrip());
        }
      }
    }
  }
}

TEST_P(SparseMagnitudeTest, GivesBackBlocksOfManyRuns) {
  Random random(2);
  for (const DType dtype : DTypesWithAnExponent()) {
    for (const auto& sizes : std::vector<std::vector<size_t>>{
             {1, 1, 1}, {1, 500, 2, 63, 64, 65, 1}, {100, 0, 0, 3}, std::vector<size_t>(64, 1), {70'000, 1, 70'000}}) {
      ASSERT_NO_FATAL_FAILURE(MakeBlock(dtype, 4, sizes, 0.02, random).ExpectRoundTrip());
      ASSERT_NO_FATAL_FAILURE(MakeBlock(dtype, MostClasses(dtype), sizes, 0.4, random).ExpectRoundTrip());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, SparseMagnitudeTest, ::testing::ValuesIn(SimdNames()),
                         [](const auto& info) { return info.param; });

TEST(SparseMagnitude, SaysHowManyChangeInEachClassAndThenTheStrands) {
  // Classes: below 1, from 1 on. All four of the second class go up, none of the first changes.
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kBF16), {0x3F80});
  const MagnitudeModel model(classes, {SymbolTable(SymbolTable::Frequencies{kProbabilityOne})}, {0, 0});
  const Bytes before = BitsTensor<uint16_t>("", DType::kBF16, {6}, {0x3F80, 0, 0x4000, 0x4000, 0x3F00, 0x7F80}).bytes;
  ClassedChanges changes{
      .members = {2, 4}, .class_of = {1, 1, 1, 1}, .number_of = {0, 1, 2, 3}, .tokens = std::vector<StepToken>(4)};
  Bytes payload;
  EncodeSparseMagnitude(model, changes, payload);
  EXPECT_EQ(ToHex(payload),
            "0004"
            "0000010000000100"
            "00")
      << "0 and 4 changes, two states, no words";
  BlockChanges decoded{.unit = 2};
  const OldRun run{.bytes = before};
  RunningDigest moved;
  Must(DecodeSparseMagnitude(payload, 4, DType::kBF16, model, {&run, 1}, decoded, {&moved, 1}));
  EXPECT_THAT(decoded.positions, ::testing::ElementsAre(0, 2, 3, 5));
  EXPECT_EQ(decoded.values, BitsTensor<uint16_t>("", DType::kBF16, {4}, {0x3F81, 0x4001, 0x4001, 0x7F81}).bytes);
}

TEST(SparseMagnitude, WhereMagnitudesTellItIsSmallerThanFlat) {
  Random random(3);
  // Small magnitudes change, others do not: positions cost nothing.
  const MagnitudeClasses classes(*MagnitudeViewOf(DType::kBF16), {0x3F80});
  const MagnitudeModel model(classes, {SymbolTable(SymbolTable::Frequencies{kProbabilityOne})}, {0, 0});
  Block block{
      .dtype = DType::kBF16, .model = model, .before = {}, .after = {}, .positions = {}, .classed = {}, .payload = {}};
  TestTensor tensor = RandomTensor("", DType::kBF16, {10'000}, random);
  Bytes after = tensor.bytes;
  for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
    if (random() % 3 == 0) StoreLe<uint16_t>(tensor.bytes.data() + i, 0x4000);
    const auto bits = LoadLe<uint16_t>(tensor.bytes.data() + i);
    StoreLe(after.data() + i, bits == 0x4000 ? bits : AfterStep(bits, 0, true));
  }
  AddRun<uint16_t>(block, tensor.bytes, after);
  EncodeSparseMagnitude(block.model, block.classed, block.payload);
  EXPECT_LE(block.payload.size(), 21u);
  block.ExpectRoundTrip();
}

TEST(SparseMagnitude, RefusesCountsThatTheClassesDoNotHold) {
  Random random(4);
  const Block block = MakeBlock(DType::kF8E4M3, 4, {300}, 0.1, random);
  EXPECT_THAT(block.Decode(block.payload, block.positions.size() + 1), Fails(Code::kCorrupt, HasSubstr("announced")));
  EXPECT_THAT(block.Decode(block.payload, block.positions.size() - 1), Fails(Code::kCorrupt, HasSubstr("announced")));
  for (size_t c = 0; c < 4; ++c) {
    Bytes payload = block.payload;  // all counts are below 128
    payload[c] = std::byte{127};
    EXPECT_THAT(block.Decode(payload),
                Fails(Code::kCorrupt, AnyOf(HasSubstr(fmt::format("of class {}", c)), HasSubstr("announced"))));
  }
  Bytes huge(9, std::byte{0xFF});
  huge.push_back(std::byte{1});
  huge.insert(huge.end(), block.payload.begin(), block.payload.end());
  EXPECT_THAT(block.Decode(huge), Fails(Code::kCorrupt, HasSubstr("of class 0")));
}

TEST(SparseMagnitude, CodesMustChangeAsManyBytesAsAnnounced) {
  Random random(5);
  const Block block = MakeBlock(DType::kF4, 3, {200}, 0.5, random);
  ASSERT_LT(block.positions.size(), block.classed.tokens.size()) << "some bytes change in both halves";
  block.ExpectRoundTrip();
  for (const int difference : {-1, 1}) {
    const uint64_t count = block.positions.size() + static_cast<uint64_t>(difference);
    EXPECT_THAT(block.Decode(block.payload, count), Fails(Code::kCorrupt, HasSubstr("bytes change")));
  }
  EXPECT_THAT(block.Decode(block.payload, block.classed.tokens.size() + 1), Fails(Code::kCorrupt));
  EXPECT_THAT(block.Decode(block.payload, block.classed.tokens.size() / 2 - 1), Fails(Code::kCorrupt));
}

TEST(SparseMagnitude, RefusesEveryTruncationAndTrailingBytes) {
  Random random(6);
  for (const DType dtype : {DType::kF32, DType::kF4}) {
    const Block block = MakeBlock(dtype, 5, {300, 7}, 0.1, random);
    for (size_t size = 0; size < block.payload.size(); ++size) {
      EXPECT_THAT(block.Decode(ByteSpan(block.payload).first(size)), Fails(Code::kCorrupt)) << size;
    }
    Bytes longer = block.payload;
    longer.push_back(std::byte{0});
    EXPECT_THAT(block.Decode(longer), Fails(Code::kCorrupt));
  }
}

TEST(SparseMagnitude, AFlippedBitIsRefusedOrStaysWithinTheBlock) {
  Random random(7);
  for (const DType dtype : {DType::kBF16, DType::kF8E8M0, DType::kF4}) {
    const Block block = MakeBlock(dtype, 4, {300, 50}, 0.2, random);
    for (size_t bit = 0; bit < 8 * block.payload.size(); ++bit) {
      Bytes damaged = block.payload;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const Result<BlockChanges> changes = block.Decode(damaged);
      if (!changes) continue;
      ASSERT_EQ(changes->positions.size(), block.positions.size());
      ASSERT_EQ(changes->count(), block.positions.size());
      for (size_t i = 0; i < changes->positions.size(); ++i) {
        ASSERT_LT(changes->positions[i], 350u);
        ASSERT_TRUE(i == 0 || changes->positions[i] > changes->positions[i - 1]);
      }
    }
  }
}

TEST(SparseMagnitude, OnAnyOtherBaseItIsRefusedOrDecodesToOtherBits) {
  Random random(8);
  Block block = MakeBlock(DType::kBF16, 6, {2000}, 0.05, random);
  const uint32_t right = BlockChecksum(Must(block.Decode(block.payload)));
  for (size_t bit = 0; bit < 16 * 40; ++bit) {
    block.before[0][bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto changes = block.Decode(block.payload);
    const uint32_t position = static_cast<uint32_t>(bit / 16);
    const bool matters = std::find(block.positions.begin(), block.positions.end(), position) != block.positions.end();
    EXPECT_TRUE(!changes || !matters || BlockChecksum(*changes) != right) << bit;
    block.before[0][bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST(SparseMagnitude, RefusesAStepThatIsWiderThanItsDtype) {
  Random random(9);
  Block block = MakeBlock(DType::kF8E4M3, 1, {100}, 0, random);
  block.classed.tokens[0] = {.extra = 0, .symbol = 20, .extra_bits = 8};  // rank 256 needs nine bits
  Bytes payload;
  EncodeSparseMagnitude(block.model, block.classed, payload);
  EXPECT_THAT(block.Decode(payload), Fails(Code::kCorrupt, HasSubstr("F8_E4M3")));
  block = MakeBlock(DType::kF4, 1, {100}, 0, random);
  block.classed.tokens[0] = {.extra = 0, .symbol = 16, .extra_bits = 4};  // rank 16 needs five
  payload.clear();
  EncodeSparseMagnitude(block.model, block.classed, payload);
  EXPECT_THAT(block.Decode(payload), Fails(Code::kCorrupt, HasSubstr("F4")));
}

}  // namespace
}  // namespace skerry
