#include "skerry/patch/encoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "skerry/diff/find_changes.h"
#include "skerry/patch/value_step.h"
#include "skerry/tensors/checkpoint.h"
#include "tests/testing/patches.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Raw bytes of everything that changed may cost 1 % and 1 KiB more, never more.
uint64_t Bound(uint64_t raw) { return raw + raw / 100 + 1024; }

void ExpectRoundTrip(const TestModel& base_model, const TestModel& target_model, const EncodeOptions& options = {}) {
  const ModelSource base(base_model), target(target_model);
  MemorySink sink;
  const EncodeReceipt receipt = Must(EncodePatch(base, target, {}, options, sink, Progress::None()));
  EXPECT_EQ(receipt.patch_bytes, sink.bytes().size());
  EXPECT_LE(receipt.patch_bytes, Bound(target.layout().total_bytes()));
  const Patch patch = Must(Patch::FromBytes(std::move(sink.bytes())));
  ASSERT_TRUE(Must(Decoded(patch, base, target.layout())) == TensorsOf(target));
  EXPECT_EQ(receipt.target_digests, Must(DigestTensors(target, 1, Progress::None())));
  EXPECT_EQ(receipt.base_digests, Must(DigestTensors(base, 1, Progress::None())));
  EXPECT_EQ(patch.info().target_model, ModelDigest(target.layout().tensors_digest(), receipt.target_digests));
  EXPECT_EQ(patch.info().base_model, ModelDigest(base.layout().tensors_digest(), receipt.base_digests));
}

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
  RC_ASSERT(got.size() <= Bound(goal.layout().total_bytes()));
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

// Field cases -------------------------------------------------------------------------------------------------------

struct Diffed {
  std::vector<std::pair<std::string, std::vector<uint64_t>>> positions;
  std::vector<Bytes> applied;
};

Diffed DiffAndApply(const TestModel& base, const TestModel& target) {
  const ModelSource source(base);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  return {PositionsIn(patch, source), Must(Decoded(patch, source, source.layout()))};
}

TEST(FieldCase, A1_NaNsAreBitsLikeAllOthersAndASignallingOneStaysSo) {
  const TestModel base{.tensors = {BitsTensor<uint16_t>("w", DType::kBF16, {4}, {0x3F80, 0x7F81, 0x7FC0, 0xFFC0})},
                       .side_files = {}};
  const TestModel target{.tensors = {BitsTensor<uint16_t>("w", DType::kBF16, {4}, {0x7FC1, 0x7F81, 0x3F80, 0xFFC1})},
                         .side_files = {}};
  const Diffed diffed = DiffAndApply(base, target);
  EXPECT_THAT(diffed.positions, ElementsAre(Pair("w", ElementsAre(0, 2, 3))));
  EXPECT_EQ(diffed.applied[0], target.tensors[0].bytes);
}

TEST(FieldCase, A2_IntegersAndBoolsAreComparedBitwise) {
  const TestModel base{
      .tensors = {BitsTensor<int64_t>("i", DType::kI64, {3}, {0, 1, 2}),
                  BitsTensor<uint8_t>("m", DType::kBool, {2}, {0, 1}), BitsTensor<uint8_t>("u", DType::kU8, {1}, {9})},
      .side_files = {}};
  TestModel target = base;
  target["i"] = BitsTensor<int64_t>("i", DType::kI64, {3}, {0, -1, 2});
  target["m"] = BitsTensor<uint8_t>("m", DType::kBool, {2}, {1, 1});
  const Diffed diffed = DiffAndApply(base, target);
  EXPECT_THAT(diffed.positions, ElementsAre(Pair("i", ElementsAre(1)), Pair("m", ElementsAre(0))));
  EXPECT_EQ(diffed.applied[0], target["i"].bytes);
  EXPECT_EQ(diffed.applied[1], target["m"].bytes);
}

TEST(FieldCase, A3_Fp8SignedZerosAndNaNEncodingsAreChanges) {
  const TestModel base{.tensors = {BitsTensor<uint8_t>("w", DType::kF8E4M3, {4}, {0x00, 0x80, 0x7F, 0x38})},
                       .side_files = {}};
  const TestModel target{.tensors = {BitsTensor<uint8_t>("w", DType::kF8E4M3, {4}, {0x80, 0x00, 0xFF, 0x38})},
                         .side_files = {}};
  const Diffed diffed = DiffAndApply(base, target);
  EXPECT_THAT(diffed.positions, ElementsAre(Pair("w", ElementsAre(0, 1, 2))));
  EXPECT_EQ(diffed.applied[0], target.tensors[0].bytes);
}

TEST(FieldCase, A6_AValueThatWentThereAndBackIsNoChange) {
  Random random(8);
  const TestModel base = SmallModel(random);
  TestModel moved = base;
  moved["model.embed.weight"].bytes[1] ^= std::byte{0x40};
  TestModel back = moved;
  back["model.embed.weight"].bytes[1] ^= std::byte{0x40};
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, back)));
  EXPECT_EQ(patch.info().changed, 0u);
  EXPECT_EQ(patch.info().base_model, patch.info().target_model);
}

TEST(FieldCase, A8_ChangesFarApartComeBackExactly) {
  const TestModel base{.tensors = {{"w", DType::kBF16, {140'000}, Bytes(280'000)}}, .side_files = {}};
  TestModel target = base;
  for (const size_t position : {0u, 65'535u, 131'071u}) target["w"].bytes[2 * position] = std::byte{1};
  const Diffed diffed = DiffAndApply(base, target);
  EXPECT_THAT(diffed.positions, ElementsAre(Pair("w", ElementsAre(0, 65'535, 131'071))));
  EXPECT_EQ(diffed.applied[0], target["w"].bytes);
}

TEST(FieldCase, A13_AnotherExportOfTheSameWeightsHasAnotherIdentity) {
  Random random(9);
  TestModel exported = SmallModel(random);
  const ModelSource original(exported);
  // A round trip through another framework flipped the sign of a zero.
  exported["model.embed.weight"].bytes[1] ^= std::byte{0x80};
  const ModelSource other(exported, {.reversed = true});
  const auto model_of = [](const TensorSource& source) {
    return ModelDigest(source.layout().tensors_digest(), Must(DigestTensors(source, 1, Progress::None())));
  };
  EXPECT_EQ(original.layout().tensors_digest(), other.layout().tensors_digest());
  EXPECT_NE(model_of(original), model_of(other));
}

TEST(FieldCase, A14_AChangedDtypeIsRefusedByNameAndTheLowestBitOfAnF32IsOneChange) {
  const TestModel base{.tensors = {BitsTensor<float>("gate.bias", DType::kF32, {4}, {1, 34.5f, 3, 4})},
                       .side_files = {}};
  const TestModel as_bf16{.tensors = {BitsTensor<uint16_t>("gate.bias", DType::kBF16, {4}, {0, 0, 0, 0})},
                          .side_files = {}};
  MemorySink sink;
  EXPECT_THAT(EncodePatch(ModelSource(base), ModelSource(as_bf16), {}, {}, sink, Progress::None()),
              Fails(Code::kInvalid, AllOf(HasSubstr("gate.bias"), HasSubstr("F32 [4]"), HasSubstr("BF16 [4]"))));
  TestModel next = base;
  next["gate.bias"].bytes[4] ^= std::byte{1};
  EXPECT_THAT(DiffAndApply(base, next).positions, ElementsAre(Pair("gate.bias", ElementsAre(1))));
}

TEST(FieldCase, A16_AChangedShapeIsRefusedEvenWhenTheBytesAreAsMany) {
  Random random(10);
  const TestModel base{.tensors = {RandomTensor("w", DType::kBF16, {2, 8}, random)}, .side_files = {}};
  TestModel reshaped = base;
  reshaped["w"].shape = {4, 4};
  TestModel padded = base;
  padded["w"].shape = {4, 8};
  padded["w"].bytes.resize(64);
  for (const TestModel& target : {reshaped, padded}) {
    MemorySink sink;
    EXPECT_THAT(EncodePatch(ModelSource(base), ModelSource(target), {}, {}, sink, Progress::None()),
                Fails(Code::kInvalid, AllOf(HasSubstr("'w'"), HasSubstr("[2, 8]"))));
    ExpectRoundTrip(base, target, {.allow_structural = true});
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

TEST(FieldCase, A18_AnEmptyDeltaIsAnUnderstandableFileOfAtMost1KiB) {
  Random random(12);
  TestModel model = SmallModel(random);
  for (int i = 0; i < 300; ++i)
    model.tensors.push_back(RandomTensor(fmt::format("expert.{}", i), DType::kBF16, {8}, random));
  const Bytes bytes = PatchBetween(model, model);
  EXPECT_LE(bytes.size(), 1024u);
  const Patch patch = Must(Patch::FromBytes(bytes));
  EXPECT_EQ(patch.info().changed, 0u);
  EXPECT_EQ(patch.info().blocks, 0u);
  EXPECT_EQ(patch.info().base_model, patch.info().target_model);
  EXPECT_EQ(Must(Decoded(patch, ModelSource(model), ModelSource(model).layout())), TensorsOf(ModelSource(model)));
}

TEST(FieldCase, A19_EmptyAndScalarTensorsKeepTheirShapesAndTheScalarChanges) {
  const TestModel base{.tensors = {{"a", DType::kF8E4M3, {0}, {}},
                                   {"b", DType::kF32, {2, 0}, {}},
                                   BitsTensor<float>("c", DType::kF32, {}, {1.0f}),
                                   BitsTensor<uint16_t>("d", DType::kBF16, {1}, {0x3F80})},
                       .side_files = {}};
  TestModel target = base;
  target["c"] = BitsTensor<float>("c", DType::kF32, {}, {2.0f});
  const Diffed diffed = DiffAndApply(base, target);
  EXPECT_THAT(diffed.positions, ElementsAre(Pair("c", ElementsAre(0))));
  EXPECT_EQ(diffed.applied, TensorsOf(ModelSource(target)));
}

TEST(FieldCase, A24_ADenseRandomTensorCostsItsRawSizeAndLittleMore) {
  Random random(13);
  const TestModel base{.tensors = {{"w", DType::kBF16, {1 << 19}, RandomBytes(1 << 20, random)}}, .side_files = {}};
  const TestModel target{.tensors = {{"w", DType::kBF16, {1 << 19}, RandomBytes(1 << 20, random)}}, .side_files = {}};
  const Bytes bytes = PatchBetween(base, target);
  EXPECT_LE(bytes.size(), Bound(1 << 20));
  const Patch patch = Must(Patch::FromBytes(bytes));
  for (const BlockEntry& block : patch.head().blocks) EXPECT_EQ(block.method, Method::kDense);
  ExpectRoundTrip(base, target, {.threads = 2});
}

TEST(FieldCase, B13_TensorsOffAnyAlignmentAreComparedRight) {
  Random random(14);
  const TestModel base{
      .tensors = {RandomTensor("a", DType::kU8, {3}, random), RandomTensor("b", DType::kF32, {2000}, random),
                  RandomTensor("c", DType::kBF16, {1}, random)},
      .side_files = {}};
  TestModel target = base;
  target.Nudge(0.3, random);
  const TempDir directory;
  WriteCheckpoint(base, directory / "base", {.metadata = std::nullopt, .header_multiple = 1});
  WriteCheckpoint(target, directory / "target", {.metadata = std::nullopt, .header_multiple = 1});
  const Checkpoint before = Must(Checkpoint::Open(directory / "base")),
                   after = Must(Checkpoint::Open(directory / "target"));
  for (const std::string& simd : SimdNames()) {
    const WithSimd with(simd);
    const Patch patch = Must(Patch::FromBytes(PatchBetween(before, after)));
    EXPECT_TRUE(Must(Decoded(patch, before, after.layout())) == TensorsOf(ModelSource(target)));
  }
}

TEST(FieldCase, B16_KeyOrderAndTensorOrderInAFileAreNoChanges) {
  Random random(15);
  const TestModel model = SmallModel(random);
  const ModelSource forward(model), backward(model, {.metadata = R"({"format":"pt","x":"y"})", .reversed = true});
  EXPECT_NE(forward.layout().digest(), backward.layout().digest());
  EXPECT_EQ(forward.layout().tensors_digest(), backward.layout().tensors_digest());
  const Patch patch = Must(Patch::FromBytes(PatchBetween(forward, backward)));
  EXPECT_EQ(patch.info().changed, 0u);
  EXPECT_FALSE(patch.info().structural);
  ASSERT_TRUE(patch.head().layout) << "the target's files are rebuilt byte for byte, so their layout travels";
  EXPECT_EQ(Must(Layout::Parse(*patch.head().layout)).digest(), backward.layout().digest());
}

TEST(FieldCase, B15_ABaseThatIsTruncatedMeanwhileIsAnErrorAndNoSignal) {
  Random random(16);
  TestModel model{.tensors = {RandomTensor("w", DType::kBF16, {400, 500}, random)}, .side_files = {}};
  const TempDir directory;
  WriteCheckpoint(model, directory / "base");
  WriteCheckpoint(model, directory / "target");
  const Checkpoint base = Must(Checkpoint::Open(directory / "base")),
                   target = Must(Checkpoint::Open(directory / "target"));
  std::filesystem::resize_file(directory / "base" / "model.safetensors", 200'000);
  MemorySink sink;
  EXPECT_THAT(EncodePatch(base, target, {}, {.threads = 2}, sink, Progress::None()),
              Fails(Code::kIo, HasSubstr("base/model.safetensors")));
}

}  // namespace
}  // namespace skerry
