#include "skerry/patch/encoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "skerry/diff/find_changes.h"
#include "skerry/patch/value_step.h"
#include "tests/testing/patches.h"

namespace skerry {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Encoder, GivesBackEveryDtypeAtEveryDensityWithinTheBound) {
  Random random(1);
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    for (const double density : {0.0, 0.00001, 0.001, 0.03, 0.4, 1.0}) {
      const TestModel base{.tensors = {RandomTensor("w", dtype, {50, 400}, random)}, .side_files = {}};
      TestModel target = base;
      const size_t changed = target.Nudge(density, random);
      SCOPED_TRACE(fmt::format("{} {} changes", DTypeName(dtype), changed));
      ExpectRoundTrip(base, target);
    }
  }
}

TEST(Encoder, GivesBackTensorsAroundTheBoundariesOfCellsAndBlocks) {
  Random random(2);
  for (const uint64_t units : {65'535u, 65'536u, 65'537u, 64u * 65'536u, 64u * 65'536u + 1u}) {
    const TestModel base{
        .tensors = {RandomTensor("a", DType::kU8, {units}, random), RandomTensor("b", DType::kF8E5M2, {3}, random)},
        .side_files = {}};
    for (const double density : {0.0001, 0.02}) {
      TestModel target = base;
      target.Nudge(density, random);
      target["a"].bytes.front() ^= std::byte{1};
      target["a"].bytes.back() ^= std::byte{1};
      SCOPED_TRACE(fmt::format("{} units, density {}", units, density));
      ExpectRoundTrip(base, target, {.threads = 2});
    }
  }
}

TEST(Encoder, ChangesAtTheEdgesOfCellsAreFoundWhereTheyAre) {
  const TestModel base{.tensors = {{"a", DType::kU8, {200'000}, Bytes(200'000)}, {"b", DType::kU8, {5}, Bytes(5)}},
                       .side_files = {}};
  TestModel target = base;
  const std::vector<uint64_t> places = {0, 65'535, 65'536, 131'071, 131'072, 199'999};
  for (const uint64_t place : places) target["a"].bytes[place] = std::byte{7};
  target["b"].bytes[0] = std::byte{7};
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  EXPECT_THAT(PositionsIn(patch, ModelSource(base)), ElementsAre(Pair("a", places), Pair("b", ElementsAre(0))));
}

// Models of a few tensors, any dtype, any density: the same file for every number of threads and instruction set.
RC_GTEST_PROP(Encoder, TheFileDependsOnTheModelsAlone, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  TestModel base;
  const int tensors = *rc::gen::inRange(1, 5);
  for (int i = 0; i < tensors; ++i) {
    const auto dtype = *DTypeFromCode(static_cast<uint8_t>(*rc::gen::inRange(0, kDTypeCount)));
    const auto rows = *rc::gen::inRange<uint64_t>(0, 300);
    base.tensors.push_back(
        RandomTensor(fmt::format("t{}", i), dtype, {rows, 4 * *rc::gen::inRange<uint64_t>(1, 100)}, random));
  }
  TestModel target = base;
  for (TestTensor& tensor : target.tensors) Nudge(tensor, std::pow(10, -*rc::gen::inRange(0, 6)), random);
  const Bytes expected = PatchBetween(base, target);
  const std::string simd = *rc::gen::elementOf(SimdNames());
  const WithSimd with(simd);
  const Bytes got = PatchBetween(base, target, {.threads = *rc::gen::inRange(2, 5)});
  RC_ASSERT(got == expected);
  const ModelSource source(base), goal(target);
  RC_ASSERT(Must(Decoded(Must(Patch::FromBytes(got)), source, goal.layout())) == TensorsOf(goal));
  RC_ASSERT(got.size() <= MostPatchBytes(goal.layout().total_bytes()));
}

TEST(Encoder, ManyBlocksComeInTheSameOrderForAnyNumberOfThreads) {
  Random random(3);
  TestModel base;
  for (int i = 0; i < 12; ++i) {
    base.tensors.push_back(RandomTensor(fmt::format("layer.{:02}", i), DType::kBF16, {300, 500}, random));
  }
  TestModel target = base;
  target.Nudge(0.05, random);
  const Bytes one = PatchBetween(base, target, {.threads = 1});
  for (const int threads : {2, 3, 4}) EXPECT_TRUE(PatchBetween(base, target, {.threads = threads}) == one) << threads;
  ExpectRoundTrip(base, target, {.threads = 4});
}

// Small weights move to their neighbours, larger ones rarely: as an optimizer does it.
TestModel Stepped(TestModel model, Random& random) {
  for (TestTensor& tensor : model.tensors) {
    for (size_t i = 0; i + 1 < tensor.bytes.size(); i += 2) {
      const auto bits = LoadLe<uint16_t>(tensor.bytes.data() + i);
      const int exponent = bits >> 7 & 0xFF;
      if (random() >> 11 >= uint64_t{1} << std::clamp(53 + 114 - exponent, 0, 53)) continue;
      StoreLe(tensor.bytes.data() + i, AfterStep<uint16_t>(bits, random() % 2, true));
    }
  }
  return model;
}

std::set<Method> MethodsOf(const Patch& patch) {
  std::set<Method> methods;
  for (const BlockEntry& block : patch.head().blocks) methods.insert(block.method);
  return methods;
}

TEST(Encoder, OnlyCompactPatchesReadTheMagnitudesOfTheBase) {
  Random random(17);
  const TestModel base{.tensors = {RandomTensor("w", DType::kBF16, {400, 500}, random)}, .side_files = {}};
  const TestModel target = Stepped(base, random);
  const Bytes fast = PatchBetween(base, target, {.level = Level::kFast}), compact = PatchBetween(base, target);
  EXPECT_THAT(MethodsOf(Must(Patch::FromBytes(fast))), ElementsAre(Method::kSparseFlat));
  EXPECT_THAT(MethodsOf(Must(Patch::FromBytes(compact))), ElementsAre(Method::kSparseMagnitude));
  EXPECT_LT(compact.size(), fast.size() * 9 / 10);
  ExpectRoundTrip(base, target, {.level = Level::kFast});
  ExpectRoundTrip(base, target, {.level = Level::kCompact});
}

TEST(Encoder, FastPatchesHaveNoMagnitudesAtAnyDensityAndDtype) {
  Random random(18);
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = *DTypeFromCode(static_cast<uint8_t>(code));
    const TestModel base{.tensors = {RandomTensor("w", dtype, {50, 400}, random)}, .side_files = {}};
    for (const double density : {0.001, 0.1, 1.0}) {
      TestModel target = base;
      target.Nudge(density, random);
      const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target, {.level = Level::kFast})));
      EXPECT_EQ(MethodsOf(patch).count(Method::kSparseMagnitude), 0u) << DTypeName(dtype);
      EXPECT_TRUE(patch.head().magnitudes.empty());
      ExpectRoundTrip(base, target, {.level = Level::kFast});
    }
  }
}

TEST(Encoder, TablesTravelOnlyForMethodsAndDtypesThatAreUsed) {
  Random random(19);
  TestModel base{.tensors = {RandomTensor("a", DType::kBF16, {300, 200}, random),
                             RandomTensor("b", DType::kF16, {300}, random),
                             RandomTensor("c", DType::kU8, {300}, random),
                             {"d", DType::kI8, {5000}, RandomBytes(5000, random)}},
                 .side_files = {}};
  TestModel target = base;
  target["a"] = Stepped({.tensors = {base["a"]}, .side_files = {}}, random)["a"];
  target["c"].bytes[7] ^= std::byte{1};
  target["d"].bytes = RandomBytes(5000, random);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  ASSERT_EQ(patch.head().blocks.size(), 3u);
  EXPECT_EQ(patch.head().tables.size(), 1u) << "U8: BF16 goes by magnitude, I8 whole, F16 not at all";
  EXPECT_EQ(patch.head().tables.count(DType::kU8), 1u);
  EXPECT_EQ(patch.head().magnitudes.size(), 1u);
  EXPECT_EQ(patch.head().magnitudes.count(DType::kBF16), 1u);
}

// NF4 in bytes: the middle levels change often, the outer ones never. Scales in bytes beside it, which stay or move.
TEST(Encoder, BytesThatHoldTwoCodesGoByTheCodes) {
  Random random(23);
  TestModel base{.tensors = {{"w", DType::kU8, {50'000, 1}, RandomBytes(50'000, random)},
                             {"w.scale", DType::kU8, {4000}, RandomBytes(4000, random)}},
                 .side_files = {}};
  TestModel target = base;
  for (std::byte& byte : target["w"].bytes) {
    for (const int shift : {0, 4}) {
      const int code = std::to_integer<int>(byte) >> shift & 0xF;
      if (code < 5 || code > 10 || random() % 50 != 0) continue;
      byte = (byte & ~(std::byte{0xF} << shift)) | static_cast<std::byte>((code + 1) << shift);
    }
  }
  TestModel moved = target;
  for (size_t i = 0; i < 4000; i += 100) moved["w.scale"].bytes[i] ^= std::byte{1};
  for (const TestModel& after : {target, moved}) {
    const Bytes fast = PatchBetween(base, after, {.level = Level::kFast}), compact = PatchBetween(base, after);
    const Patch patch = Must(Patch::FromBytes(compact));
    EXPECT_EQ(patch.head().magnitudes.count(DType::kU8), 1u);
    EXPECT_EQ(compact[16], std::byte{kFeatureCodes}) << "older readers refuse it";
    EXPECT_EQ(fast[16], std::byte{0});
    EXPECT_THAT(MethodsOf(patch), Contains(Method::kSparseMagnitude));
    EXPECT_LT(compact.size(), fast.size() * 85 / 100);
    for (const int threads : {1, 3}) ExpectRoundTrip(base, after, {.threads = threads});
  }
  TestModel scales = base;
  scales["w.scale"] = moved["w.scale"];
  EXPECT_EQ(PatchBetween(base, scales)[16], std::byte{0}) << "bytes that are numbers stay numbers";
}

TEST(Encoder, BlocksSpanSmallTensorsOfOneDtype) {
  Random random(20);
  TestModel base;
  for (int i = 0; i < 150; ++i) {
    const DType dtype = i % 3 == 0 ? DType::kF32 : DType::kBF16;
    base.tensors.push_back(RandomTensor(fmt::format("t{:03}", i), dtype, {30}, random));
  }
  TestModel target = base;
  target.Nudge(0.2, random);
  for (TestTensor& tensor : target.tensors) tensor.bytes[0] ^= std::byte{4};  // all of them change
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  // 100 cells of BF16 and 50 of F32, 64 to a block.
  ASSERT_EQ(patch.head().blocks.size(), 3u);
  const std::vector<PlacedBlock> placed = Must(patch.Place(ModelSource(base).layout()));
  EXPECT_EQ(placed[0].runs.size(), 64u);
  EXPECT_EQ(placed[1].runs.size(), 36u);
  EXPECT_EQ(placed[2].runs.size(), 50u);
  EXPECT_EQ(placed[0].dtype, DType::kBF16);
  EXPECT_EQ(placed[2].dtype, DType::kF32);
  EXPECT_EQ(placed[1].units, 36u * 30u);
  for (const Level level : {Level::kFast, Level::kCompact}) {
    for (const int threads : {1, 3}) ExpectRoundTrip(base, target, {.threads = threads, .level = level});
  }
}

TEST(Encoder, ABlockEndsWithTheCellWhereItHasEnoughChanges) {
  Random random(21);
  const TestModel base{.tensors = {RandomTensor("w", DType::kBF16, {10, 65'536}, random)}, .side_files = {}};
  TestModel target = base;
  target.Nudge(0.04, random);  // about 2,600 a cell
  std::copy_n(base.tensors[0].bytes.begin(), 3 * 2 * kCellUnits,
              target["w"].bytes.begin());               // the first three are equal
  std::vector<std::pair<uint64_t, uint32_t>> expected;  // first cell, cells
  uint64_t changed = 0;
  for (uint64_t cell = 3; cell < 10; ++cell) {
    if (changed == 0) expected.emplace_back(cell, 0);
    changed += CountChanges(base.tensors[0].bytes.data() + cell * 2 * kCellUnits,
                            target["w"].bytes.data() + cell * 2 * kCellUnits, kCellUnits, 2);
    ++expected.back().second;
    if (changed >= kChangesPerBlock) changed = 0;
  }
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  std::vector<std::pair<uint64_t, uint32_t>> found;
  for (const BlockEntry& block : patch.head().blocks) found.emplace_back(block.first_cell, block.cells);
  EXPECT_EQ(found, expected);
}

// What stands between two changed cells belongs to the block, what stands before the first or behind the last does not.
TEST(Encoder, ABlockBeginsAndEndsWithACellThatChanged) {
  Random random(22);
  TestModel base;
  for (int i = 0; i < 5; ++i) base.tensors.push_back(RandomTensor(fmt::format("t{}", i), DType::kBF16, {100}, random));
  TestModel target = base;
  target["t1"].bytes[0] ^= std::byte{1};
  target["t3"].bytes[4] ^= std::byte{1};
  for (const Level level : {Level::kFast, Level::kCompact}) {
    const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target, {.level = level})));
    ASSERT_EQ(patch.head().blocks.size(), 1u);
    EXPECT_EQ(patch.head().blocks[0].first_cell, 1u);
    EXPECT_EQ(patch.head().blocks[0].cells, 3u);
    EXPECT_THAT(PositionsIn(patch, ModelSource(base)),
                ElementsAre(Pair("t1", ElementsAre(0)), Pair("t3", ElementsAre(2))));
    ExpectRoundTrip(base, target, {.level = level});
  }
}

TEST(Encoder, NamesTellWhatWasTouchedAndCanBeLeftOut) {
  Random random(4);
  const TestModel base = SmallModel(random);
  TestModel target = base;
  target["model.layers.0.gate.bias"].bytes[4] ^= std::byte{1};
  const Patch with = Must(Patch::FromBytes(PatchBetween(base, target)));
  ASSERT_EQ(with.head().names.size(), 1u);
  EXPECT_EQ(with.head().names[0].name, "model.layers.0.gate.bias");
  EXPECT_EQ(with.head().names[0].dtype, DType::kF32);
  EXPECT_THAT(with.head().names[0].shape, ElementsAre(37));
  EXPECT_EQ(with.head().names[0].changed, 1u);
  const Patch without = Must(Patch::FromBytes(PatchBetween(base, target, {.with_names = false})));
  EXPECT_THAT(without.head().names, IsEmpty());
  EXPECT_LT(without.size(), with.size());
}

TEST(Encoder, TheReceiptCounts) {
  Random random(5);
  const TestModel base = SmallModel(random);
  TestModel target = base;
  const size_t changed = Nudge(target["model.embed.weight"], 0.1, random) + Nudge(target["model.mask"], 1, random);
  MemorySink sink;
  const EncodeReceipt receipt =
      Must(EncodePatch(ModelSource(base), ModelSource(target), {}, {}, sink, Progress::None()));
  EXPECT_EQ(receipt.info.changed, changed);
  EXPECT_EQ(receipt.tensors_changed, 2u);
  EXPECT_EQ(receipt.info.units, ModelSource(base).layout().total_units());
}

TEST(Encoder, ReportsEveryByteItCompared) {
  struct Counting : Progress {
    void Begin(std::string_view name, uint64_t size) override { stage = name, total = size; }
    void Advance(uint64_t bytes) override { done += bytes; }
    std::string stage;
    uint64_t total = 0;
    std::atomic<uint64_t> done = 0;
  } progress;
  Random random(6);
  const ModelSource source(SmallModel(random));
  MemorySink sink;
  Must(EncodePatch(source, source, {}, {.threads = 2}, sink, progress));
  EXPECT_EQ(progress.stage, "compare");
  EXPECT_EQ(progress.total, source.layout().total_bytes());
  EXPECT_EQ(progress.done, progress.total);
}

TEST(Encoder, ASinkThatFailsEndsTheWork) {
  struct Full : ByteSink {
    Status Append(ByteSpan bytes) override {
      room -= static_cast<int64_t>(bytes.size());
      return room >= 0 ? Status() : Fail(Code::kNoSpace, "disk full");
    }
    int64_t room = 0;
  };
  Random random(7);
  const TestModel base = SmallModel(random);
  TestModel target = base;
  target.Nudge(0.2, random);
  const auto size = static_cast<int64_t>(PatchBetween(base, target).size());
  for (int64_t room = 0; room < size; room += 37) {
    Full sink;
    sink.room = room;
    EXPECT_THAT(EncodePatch(ModelSource(base), ModelSource(target), {}, {.threads = 3}, sink, Progress::None()),
                Fails(Code::kNoSpace, HasSubstr("disk full")));
  }
}

TEST(Encoder, StructuralChangesTravelWholeWhenAllowed) {
  Random random(11);
  const TestModel base = SmallModel(random);
  TestModel target = base;
  target.tensors.erase(target.tensors.begin());
  target["model.layers.0.gate.bias"] = RandomTensor("model.layers.0.gate.bias", DType::kBF16, {37}, random);
  target.tensors.push_back(RandomTensor("model.zzz", DType::kF16, {70'001}, random));
  target.tensors.push_back(RandomTensor("aaa", DType::kI8, {1}, random));
  target.tensors.push_back(RandomTensor("empty", DType::kI8, {0, 5}, random));
  Nudge(target["model.layers.0.mlp.weight"], 0.1, random);
  for (const int threads : {1, 3}) ExpectRoundTrip(base, target, {.threads = threads, .allow_structural = true});
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target, {.allow_structural = true})));
  EXPECT_TRUE(patch.info().structural);
  ASSERT_TRUE(patch.head().layout);
  EXPECT_EQ(*patch.head().layout, ModelSource(target).layout().Serialize());
}

}  // namespace
}  // namespace skerry
