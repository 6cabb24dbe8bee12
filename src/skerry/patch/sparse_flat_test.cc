#include "skerry/patch/sparse_flat.h"

#include "skerry/patch/format.h"
#include "skerry/patch/gap_model.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

const SymbolTable& SomeTable() {
  static const SymbolTable table = [] {
    std::array<uint64_t, kSymbols> counts{};
    counts[0] = 500;
    counts[1] = 450;
    counts[2] = 30;
    counts[kStepEscape] = 3;
    for (uint64_t& count : counts) count = 100 * count + 1;  // every symbol can be coded
    return SymbolTable(SymbolTable::Normalise(counts));
  }();
  return table;
}

template <typename T>
std::vector<StepToken> Tokens(const Bytes& before, const Bytes& after, const std::vector<uint32_t>& positions,
                              DType dtype) {
  std::vector<StepToken> tokens;
  for (const uint32_t position : positions) {
    tokens.push_back(TokenOf(LoadLe<T>(before.data() + position * sizeof(T)),
                             LoadLe<T>(after.data() + position * sizeof(T)), DTypeIsSignMagnitude(dtype)));
  }
  return tokens;
}

std::vector<StepToken> TokensOf(const Bytes& before, const Bytes& after, const std::vector<uint32_t>& positions,
                                DType dtype) {
  switch (DTypeUnit(dtype)) {
    case 1: return Tokens<uint8_t>(before, after, positions, dtype);
    case 2: return Tokens<uint16_t>(before, after, positions, dtype);
    case 4: return Tokens<uint32_t>(before, after, positions, dtype);
    default: return Tokens<uint64_t>(before, after, positions, dtype);
  }
}

struct Block {
  DType dtype;
  uint64_t units;
  std::vector<uint32_t> positions;
  Bytes before, after, payload;

  Result<BlockChanges> Decode(ByteSpan bytes, RunningDigest* moved = nullptr, uint64_t first_word = 0) const {
    BlockChanges changes{.unit = DTypeUnit(dtype), .all = true};
    RunningDigest ignored;
    const OldRun run{.bytes = before, .first_word = first_word};
    SKERRY_TRY(DecodeSparseFlat(bytes, positions.size(), dtype, SomeTable(), {&run, 1}, changes,
                                {moved != nullptr ? moved : &ignored, 1}));
    return changes;
  }
};

Block MakeBlock(DType dtype, uint64_t units, std::vector<uint32_t> positions, Random& random) {
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  Block block{dtype, units, std::move(positions), RandomBytes(units * unit, random), {}, {}};
  block.after = block.before;
  for (const uint32_t position : block.positions) {
    TestTensor one{"",
                   dtype,
                   {1},
                   Bytes(block.after.begin() + static_cast<ptrdiff_t>(position * unit),
                         block.after.begin() + static_cast<ptrdiff_t>((position + 1) * unit))};
    one.dtype = dtype == DType::kBool ? DType::kU8 : dtype;
    Nudge(one, 1, random);
    std::copy(one.bytes.begin(), one.bytes.end(), block.after.begin() + static_cast<ptrdiff_t>(position * unit));
  }
  EncodeSparseFlat(units, block.positions, TokensOf(block.before, block.after, block.positions, dtype), SomeTable(),
                   block.payload);
  return block;
}

std::vector<uint32_t> RandomPositions(uint64_t units, double density, Random& random) {
  std::vector<uint32_t> positions;
  for (uint64_t i = 0; i < units; ++i) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 < density) positions.push_back(static_cast<uint32_t>(i));
  }
  if (positions.empty()) positions.push_back(static_cast<uint32_t>(random() % units));
  return positions;
}

void ExpectRoundTrip(const Block& block) {
  const uint64_t first_word = 8192 * (block.units % 5);
  RunningDigest digest = DigestWordsScalar(block.before, first_word);
  const BlockChanges changes = Must(block.Decode(block.payload, &digest, first_word));
  ASSERT_EQ(changes.positions, block.positions);
  ASSERT_EQ(digest, DigestWordsScalar(block.after, first_word)) << "the digest moves along";
  Bytes applied = block.before;
  ApplyBlock(changes, applied.data());
  ASSERT_TRUE(applied == block.after) << DTypeName(block.dtype);
}

TEST(SparseFlat, GivesBackEveryDtypeAtEveryDensity) {
  Random random(1);
  for (int code = 0; code < kDTypeCount; ++code) {
    for (const double density : {0.0, 0.0003, 0.01, 0.2, 0.7, 1.0}) {
      for (const uint64_t units : {1u, 7u, 3000u}) {
        ExpectRoundTrip(MakeBlock(*DTypeFromCode(static_cast<uint8_t>(code)), units,
                                  RandomPositions(units, density, random), random));
      }
    }
  }
}

TEST(SparseFlat, GivesBackEveryNumberOfChangesUpToSomeHundred) {
  Random random(11);
  for (uint32_t count = 1; count <= 200; ++count) {
    std::vector<uint32_t> positions;
    for (uint32_t i = 0; i < count; ++i) positions.push_back(7 * i + static_cast<uint32_t>(random() % 7));
    ExpectRoundTrip(MakeBlock(DType::kBF16, 7 * count + 3, positions, random));
  }
}

TEST(SparseFlat, GivesBackPositionsThatAreNotSpreadAtAll) {
  Random random(2);
  std::vector<uint32_t> clustered;
  for (uint32_t i = 0; i < 500; ++i) clustered.push_back(60'000 + i);
  ExpectRoundTrip(MakeBlock(DType::kBF16, 65536, clustered, random));
  ExpectRoundTrip(MakeBlock(DType::kU8, 65536, {0}, random));
  ExpectRoundTrip(MakeBlock(DType::kU8, 65536, {65535}, random));
  ExpectRoundTrip(MakeBlock(DType::kU8, 65536, {0, 65535}, random));
}

TEST(FieldCase, A8_GapsOfAnyWidthComeBackExactly) {
  Random random(3);
  const uint32_t most = kMaxCellsPerBlock * kCellUnits;
  ExpectRoundTrip(MakeBlock(DType::kU8, 131'072, {0, 65'535, 131'071}, random));
  ExpectRoundTrip(MakeBlock(DType::kU8, most, {0, (1u << 20) + 1, (1u << 21) + 3, most - 1}, random));
  ExpectRoundTrip(MakeBlock(DType::kU8, most, {most - 1}, random));
  // A dense start makes the low bits few, so that the long gap is escaped many times over.
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < 200'000; ++i) positions.push_back(i);
  positions.push_back(most - 1);
  ExpectRoundTrip(MakeBlock(DType::kU8, most, positions, random));
}

TEST(SparseFlat, DecodesTheSameOnAnyBaseOrNoticesIt) {
  Random random(4);
  Block block = MakeBlock(DType::kBF16, 1000, RandomPositions(1000, 0.05, random), random);
  const BlockChanges right = Must(block.Decode(block.payload));
  block.before[block.positions[3] * 2] ^= std::byte{1};
  const BlockChanges wrong = Must(block.Decode(block.payload));
  EXPECT_EQ(wrong.positions, right.positions);
  EXPECT_NE(BlockChecksum(wrong), BlockChecksum(right)) << "steps from a wrong value lead to a wrong value";
}

TEST(FieldCase, A10_APositionBeyondTheBlockIsRefused) {
  Random random(5);
  for (const uint32_t beyond : {100u, 101u, 163u, 4000u}) {
    Block block = MakeBlock(DType::kBF16, 100, {99}, random);
    block.payload.clear();
    const std::vector<uint32_t> positions = {beyond};
    EncodeSparseFlat(100, positions, std::vector<StepToken>{{.symbol = 0}}, SomeTable(), block.payload);
    EXPECT_THAT(block.Decode(block.payload), Fails(Code::kCorrupt, HasSubstr("beyond its 100 members"))) << beyond;
  }
}

TEST(SparseFlat, MoreChangesThanUnitsAreRefused) {
  Random random(12);
  const Block block = MakeBlock(DType::kBF16, 10, {1, 2}, random);
  BlockChanges changes{.unit = 2};
  const OldRun run{.bytes = block.before};
  RunningDigest moved;
  EXPECT_THAT(DecodeSparseFlat(block.payload, 11, block.dtype, SomeTable(), {&run, 1}, changes, {&moved, 1}),
              Fails(Code::kCorrupt, HasSubstr("11 changes among 10 units")));
}

// As where a block spans several tensors: positions run on, digests do not.
TEST(SparseFlat, RunsOfSeveralTensorsAreDecodedAsOneBlock) {
  Random random(13);
  for (int code = 0; code < kDTypeCount; ++code) {
    const Block block =
        MakeBlock(*DTypeFromCode(static_cast<uint8_t>(code)), 1000, RandomPositions(1000, 0.2, random), random);
    const auto unit = static_cast<size_t>(DTypeUnit(block.dtype));
    std::vector<OldRun> runs;
    std::vector<RunningDigest> moved, expected;
    size_t at = 0;
    for (const size_t units : {1u, 300u, 7u, 0u, 500u, 192u}) {
      const uint64_t first_word = 1000 * runs.size();
      const auto before = ByteSpan(block.before).subspan(at * unit, units * unit);
      runs.push_back({.bytes = before, .first_word = first_word});
      expected.push_back(DigestWordsScalar(ByteSpan(block.after).subspan(at * unit, units * unit), first_word) -
                         DigestWordsScalar(before, first_word));
      at += units;
    }
    moved.resize(runs.size());
    BlockChanges changes{.unit = DTypeUnit(block.dtype)};
    Must(DecodeSparseFlat(block.payload, block.positions.size(), block.dtype, SomeTable(), runs, changes, moved));
    EXPECT_EQ(changes.positions, block.positions);
    EXPECT_EQ(moved, expected) << DTypeName(block.dtype);
  }
}

TEST(FieldCase, A10_FewerOrMoreChangesThanAnnouncedAreRefused) {
  Random random(6);
  Block block = MakeBlock(DType::kBF16, 1000, RandomPositions(1000, 0.02, random), random);
  for (const int difference : {-1, 1}) {
    BlockChanges changes{.unit = 2};
    const uint64_t count = block.positions.size() + static_cast<uint64_t>(difference);
    const OldRun run{.bytes = block.before};
    RunningDigest moved;
    EXPECT_THAT(DecodeSparseFlat(block.payload, count, block.dtype, SomeTable(), {&run, 1}, changes, {&moved, 1}),
                Fails(Code::kCorrupt));
  }
}

TEST(SparseFlat, RefusesEveryTruncationAndTrailingBytes) {
  Random random(7);
  const Block block = MakeBlock(DType::kF32, 2000, RandomPositions(2000, 0.03, random), random);
  for (size_t size = 0; size < block.payload.size(); ++size) {
    EXPECT_THAT(block.Decode(ByteSpan(block.payload).first(size)), Fails(Code::kCorrupt)) << size;
  }
  Bytes longer = block.payload;
  longer.push_back(std::byte{0});
  EXPECT_THAT(block.Decode(longer), Fails(Code::kCorrupt));
}

TEST(SparseFlat, AFlippedBitIsRefusedOrStaysWithinTheBlock) {
  Random random(8);
  const Block block = MakeBlock(DType::kF8E4M3, 500, RandomPositions(500, 0.2, random), random);
  for (size_t bit = 0; bit < 8 * block.payload.size(); ++bit) {
    Bytes damaged = block.payload;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const Result<BlockChanges> changes = block.Decode(damaged);
    if (!changes) continue;
    ASSERT_EQ(changes->positions.size(), block.positions.size());
    for (size_t i = 0; i < changes->positions.size(); ++i) {
      ASSERT_LT(changes->positions[i], block.units);
      if (i == 0) continue;
      ASSERT_GT(changes->positions[i], changes->positions[i - 1]);
    }
  }
}

TEST(SparseFlat, RefusesAStepThatIsWiderThanItsDtype) {
  Random random(9);
  Block block = MakeBlock(DType::kF8E4M3, 100, {5}, random);
  block.payload.clear();
  // Rank 256 needs nine bits.
  const std::vector<StepToken> tokens = {{.extra = 0, .symbol = 20, .extra_bits = 8}};
  EncodeSparseFlat(100, block.positions, tokens, SomeTable(), block.payload);
  EXPECT_THAT(block.Decode(block.payload), Fails(Code::kCorrupt, HasSubstr("F8_E4M3")));
}

TEST(SparseFlat, CostsAboutWhatItsDensityAndStepsSay) {
  Random random(10);
  std::vector<uint32_t> positions = RandomPositions(65536, 0.009, random);
  Block block = MakeBlock(DType::kBF16, 65536, positions, random);
  std::vector<StepToken> neighbours;
  for (size_t i = 0; i < positions.size(); ++i) neighbours.push_back({.symbol = static_cast<uint8_t>(random() & 1)});
  Bytes payload;
  EncodeSparseFlat(65536, positions, neighbours, SomeTable(), payload);
  const double bits = 8.0 * static_cast<double>(payload.size()) / static_cast<double>(positions.size());
  EXPECT_LT(bits, 8.25 + 1.2 + 0.3) << "the entropy of gaps at 0.9 % is 8.25 bits";
  EXPECT_GT(bits, 8.25 + 0.8);
}

}  // namespace
}  // namespace skerry
