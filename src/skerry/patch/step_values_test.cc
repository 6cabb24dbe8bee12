#include "skerry/patch/step_values.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DType DTypeAt(int code) { return *DTypeFromCode(static_cast<uint8_t>(code)); }

// Old and new bytes of several runs, and how a decoder has the changes between them.
struct Runs {
  std::vector<Bytes> before, after;
  std::vector<uint64_t> first_words;
  std::vector<uint32_t> positions, ranks;
  std::vector<uint64_t> escaped;

  std::vector<OldRun> old_runs() const {
    std::vector<OldRun> runs;
    for (size_t r = 0; r < before.size(); ++r) runs.push_back({.bytes = before[r], .first_word = first_words[r]});
    return runs;
  }
  std::vector<RunningDigest> moved() const {
    std::vector<RunningDigest> moved;
    for (size_t r = 0; r < before.size(); ++r) {
      moved.push_back(DigestWordsScalar(after[r], first_words[r]) - DigestWordsScalar(before[r], first_words[r]));
    }
    return moved;
  }
  static Bytes Joined(const std::vector<Bytes>& runs) {
    Bytes all;
    for (const Bytes& run : runs) all.insert(all.end(), run.begin(), run.end());
    return all;
  }
};

template <typename T>
void AddChange(Runs& runs, Bytes& after, size_t unit, uint32_t position, bool sign_magnitude, Random& random) {
  const T old_bits = LoadLe<T>(after.data() + unit * sizeof(T));
  T new_bits = static_cast<T>(old_bits + (random() % 2 == 0 ? 1 : random()));
  if (new_bits == old_bits) new_bits = static_cast<T>(~old_bits);
  const uint64_t rank = StepRank(old_bits, new_bits, sign_magnitude);
  runs.positions.push_back(position);
  if (rank >= 1u << 19 || random() % 8 == 0) {
    runs.ranks.push_back(kEscapedStep + static_cast<uint32_t>(runs.escaped.size()));
    runs.escaped.push_back(new_bits);
  } else {
    runs.ranks.push_back(static_cast<uint32_t>(rank));
  }
  StoreLe(after.data() + unit * sizeof(T), new_bits);
}

Runs RandomRuns(DType dtype, const std::vector<size_t>& sizes, uint64_t one_in, Random& random) {
  Runs runs;
  const bool signs = DTypeIsSignMagnitude(dtype);
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  uint32_t base = 0;
  for (const size_t units : sizes) {
    runs.before.push_back(RandomBytes(units * unit, random));
    Bytes after = runs.before.back();
    for (uint32_t i = 0; i < units; ++i) {
      if (random() % one_in != 0) continue;
      switch (unit) {
        case 1: AddChange<uint8_t>(runs, after, i, base + i, signs, random); break;
        case 2: AddChange<uint16_t>(runs, after, i, base + i, signs, random); break;
        case 4: AddChange<uint32_t>(runs, after, i, base + i, signs, random); break;
        default: AddChange<uint64_t>(runs, after, i, base + i, signs, random);
      }
    }
    runs.after.push_back(after);
    runs.first_words.push_back(random() % 1000);
    base += static_cast<uint32_t>(units);
  }
  return runs;
}

TEST(StepValues, GivesNewValuesAndDigestsOfEveryRun) {
  Random random(1);
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType dtype = DTypeAt(code);
    for (const uint64_t one_in : {1u, 2u, 30u}) {
      // Runs that end within a 64-bit word, hold one unit or none.
      for (const auto& sizes : std::vector<std::vector<size_t>>{{100}, {1, 1, 1}, {7, 0, 64, 3, 1}, {0, 33, 0}}) {
        const Runs runs = RandomRuns(dtype, sizes, one_in, random);
        BlockChanges changes{.unit = DTypeUnit(dtype), .positions = runs.positions};
        std::vector<RunningDigest> moved(sizes.size());
        Must(TakeSteps(dtype, runs.old_runs(), runs.ranks, runs.escaped, changes, moved));
        EXPECT_EQ(moved, runs.moved()) << DTypeName(dtype);
        Bytes applied = Runs::Joined(runs.before);
        ApplyBlock(changes, applied.data());
        EXPECT_EQ(applied, Runs::Joined(runs.after)) << DTypeName(dtype);
      }
    }
  }
}

TEST(StepValues, TakesKnownSteps) {
  const Bytes before = BitsTensor<uint16_t>("", DType::kBF16, {5}, {0x3F80, 0x8000, 0x0000, 0x7F7F, 0xBF80}).bytes;
  const OldRun run{.bytes = before};
  BlockChanges changes{.unit = 2, .positions = {0, 1, 2, 3, 4}};
  RunningDigest moved;
  // Up, up, down, up, and a value of its own.
  Must(TakeSteps(DType::kBF16, {&run, 1}, std::vector<uint32_t>{0, 0, 1, 0, kEscapedStep},
                 std::vector<uint64_t>{0x7FC1}, changes, {&moved, 1}));
  EXPECT_EQ(changes.values,
            BitsTensor<uint16_t>("", DType::kBF16, {5}, {0x3F81, 0x0000, 0x8000, 0x7F80, 0x7FC1}).bytes);
}

TEST(StepValues, DigestsAreAddedToWhatIsThere) {
  const Bytes before(8), after = BitsTensor<uint64_t>("", DType::kU64, {1}, {1}).bytes;
  const OldRun run{.bytes = before, .first_word = 5};
  RunningDigest digest = DigestWordsScalar(before, 5);
  BlockChanges changes{.unit = 8, .positions = {0}};
  Must(TakeSteps(DType::kU64, {&run, 1}, std::vector<uint32_t>{0}, {}, changes, {&digest, 1}));
  EXPECT_EQ(digest, DigestWordsScalar(after, 5));
}

TEST(StepValues, RefusesAStepThatIsWiderThanItsDtype) {
  const Bytes before(16);
  const OldRun run{.bytes = before};
  const auto take = [&](DType dtype, uint32_t rank) {
    BlockChanges changes{.unit = DTypeUnit(dtype), .positions = {0, 1}};
    RunningDigest moved;
    return TakeSteps(dtype, {&run, 1}, std::vector<uint32_t>{rank, 0}, {}, changes, {&moved, 1});
  };
  EXPECT_THAT(take(DType::kU8, 255), Succeeds());
  EXPECT_THAT(take(DType::kU8, 256), Fails(Code::kCorrupt, HasSubstr("U8")));
  EXPECT_THAT(take(DType::kF8E5M2, 1u << 18), Fails(Code::kCorrupt, HasSubstr("F8_E5M2")));
  EXPECT_THAT(take(DType::kBF16, 65'535), Succeeds());
  EXPECT_THAT(take(DType::kBF16, 65'536), Fails(Code::kCorrupt, HasSubstr("BF16")));
  EXPECT_THAT(take(DType::kF32, (1u << 19) - 1), Succeeds());
  EXPECT_THAT(take(DType::kF64, (1u << 19) - 1), Succeeds());
}

// Two codes a byte
// -----------------------------------------------------------------------------------------------------

TEST(CodeSteps, BothHalvesOfAByteMakeOneChange) {
  const Bytes before = {std::byte{0x21}, std::byte{0x08}, std::byte{0xF0}};
  const OldRun run{.bytes = before};
  // Codes 1 and 2 of byte 0: up and down. Code 8, which is -0, of byte 1: up, to +0. Code F, -7, of byte 2: a value.
  BlockChanges changes{.unit = 1, .positions = {0, 1, 2, 5}};
  RunningDigest moved;
  Must(TakeCodeSteps(DType::kF4, true, {&run, 1}, std::vector<uint32_t>{0, 1, 0, kEscapedStep},
                     std::vector<uint64_t>{0x3}, changes, {&moved, 1}));
  EXPECT_THAT(changes.positions, ElementsAre(0, 1, 2));
  EXPECT_EQ(changes.values, (Bytes{std::byte{0x12}, std::byte{0x00}, std::byte{0x30}}));
  EXPECT_EQ(moved, DigestWordsScalar(changes.values, 0) - DigestWordsScalar(before, 0));
}

TEST(CodeSteps, GoFromACodeToTheNextWhereItHasNoSign) {
  const Bytes before = {std::byte{0x78}};
  const OldRun run{.bytes = before};
  BlockChanges changes{.unit = 1, .positions = {0, 1}};
  RunningDigest moved;
  Must(TakeCodeSteps(DType::kU8, false, {&run, 1}, std::vector<uint32_t>{1, 0}, {}, changes, {&moved, 1}));
  EXPECT_EQ(changes.values, Bytes{std::byte{0x87}});
}

TEST(CodeSteps, LeadFromEveryCodeToEveryOther) {
  for (int variant = 0; variant < 4; ++variant) {
    const int half = variant % 2;
    const bool signs = variant / 2 != 0;
    for (int from = 0; from < 16; ++from) {
      for (int to = 0; to < 16; ++to) {
        if (from == to) continue;
        const Bytes before = {static_cast<std::byte>(from << 4 * half | 0xA << 4 * (1 - half))};
        const OldRun run{.bytes = before};
        const StepToken token = CodeTokenOf(static_cast<uint8_t>(from), static_cast<uint8_t>(to), signs);
        ASSERT_LT(token.symbol, 16);
        ASSERT_EQ(token.extra_bits, 0);
        BlockChanges changes{.unit = 1, .positions = {static_cast<uint32_t>(half)}};
        RunningDigest moved;
        Must(
            TakeCodeSteps(DType::kF4, signs, {&run, 1}, std::vector<uint32_t>{token.symbol}, {}, changes, {&moved, 1}));
        ASSERT_THAT(changes.positions, ElementsAre(0));
        ASSERT_EQ(changes.values[0], static_cast<std::byte>(to << 4 * half | 0xA << 4 * (1 - half)));
      }
    }
  }
}

TEST(CodeSteps, GivesNewBytesAndDigestsOfEveryRun) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const bool signs = round % 2 == 0;
    Runs runs;
    std::vector<uint32_t> changed_bytes;
    uint32_t base = 0;
    for (const size_t size : {5u, 0u, 1u, 30u, 8u}) {
      Bytes before = RandomBytes(size, random), after = before;
      for (uint32_t code = 0; code < 2 * size; ++code) {
        if (random() % 3 != 0) continue;
        const int shift = code % 2 * 4;
        const auto byte = std::to_integer<uint8_t>(after[code / 2]);
        const auto from = static_cast<uint8_t>(byte >> shift & 0xF),
                   to = static_cast<uint8_t>(from ^ (1 + random() % 15));
        after[code / 2] = static_cast<std::byte>((byte & ~(0xF << shift)) | to << shift);
        runs.positions.push_back(2 * base + code);
        if (random() % 4 == 0) {
          runs.ranks.push_back(kEscapedStep + static_cast<uint32_t>(runs.escaped.size()));
          runs.escaped.push_back(to);
        } else {
          runs.ranks.push_back(CodeTokenOf(from, to, signs).symbol);
        }
      }
      for (uint32_t i = 0; i < size; ++i) {
        if (before[i] != after[i]) changed_bytes.push_back(base + i);
      }
      runs.before.push_back(before);
      runs.after.push_back(after);
      runs.first_words.push_back(random() % 100);
      base += static_cast<uint32_t>(size);
    }
    BlockChanges changes{.unit = 1, .positions = runs.positions};
    std::vector<RunningDigest> moved(runs.before.size());
    Must(TakeCodeSteps(DType::kF4, signs, runs.old_runs(), runs.ranks, runs.escaped, changes, moved));
    ASSERT_EQ(changes.positions, changed_bytes);
    ASSERT_EQ(moved, runs.moved());
    Bytes applied = Runs::Joined(runs.before);
    ApplyBlock(changes, applied.data());
    ASSERT_EQ(applied, Runs::Joined(runs.after));
  }
}

TEST(CodeSteps, RefusesAStepThatIsWiderThanACode) {
  const Bytes before(2);
  const OldRun run{.bytes = before};
  for (const uint32_t rank : {16u, 300u, (1u << 19) - 1}) {
    BlockChanges changes{.unit = 1, .positions = {0, 3}};
    RunningDigest moved;
    EXPECT_THAT(TakeCodeSteps(DType::kF4, true, {&run, 1}, std::vector<uint32_t>{0, rank}, {}, changes, {&moved, 1}),
                Fails(Code::kCorrupt, HasSubstr("F4")));
  }
}

}  // namespace
}  // namespace skerry
