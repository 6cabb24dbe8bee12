// Field cases: what went wrong elsewhere, and an encoder must get right.
#include "skerry/patch/encoder.h"
#include "skerry/tensors/checkpoint.h"
#include "tests/testing/patches.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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
  EXPECT_LE(bytes.size(), MostPatchBytes(1 << 20));
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
