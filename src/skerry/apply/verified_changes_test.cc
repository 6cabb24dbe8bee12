#include "skerry/apply/verified_changes.h"

#include <tuple>

#include "skerry/patch/dense.h"
#include "tests/testing/patches.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<RunningDigest> DigestsOf(const TensorSource& source) {
  return Must(DigestTensors(source, 1, Progress::None()));
}

class VerifiedChangesTest : public ::testing::Test {
 protected:
  VerifiedChangesTest() { target_.Nudge(0.1, random_); }

  Result<std::vector<RunningDigest>> Decode(const Patch& patch, const TensorSource& base,
                                            const std::vector<RunningDigest>& digests) {
    SKERRY_ASSIGN(const Layout layout, TargetLayout(patch, base.layout()));
    return DecodeVerified(patch, base, digests, layout, 2, Progress::None(), [&](const RunChanges& part) -> Status {
      taken_ += part.changes.count();
      return {};
    });
  }

  Random random_{1};
  TestModel base_ = SmallModel(random_), target_ = base_;
  uint64_t taken_ = 0;  // units
};

TEST_F(VerifiedChangesTest, GivesTheTargetsDigestsAndEveryBlockInOrder) {
  const ModelSource base(base_), target(target_);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base, target)));
  EXPECT_EQ(Must(Decode(patch, base, DigestsOf(base))), DigestsOf(target));
  EXPECT_GE(taken_, patch.info().changed) << "dense blocks replace what did not change, too";
  // Tensors of one dtype after another, in layout order, each from front to back.
  std::tuple<DType, size_t, uint64_t> previous;
  int parts = 0;
  Must(DecodeVerified(patch, base, DigestsOf(base), base.layout(), 4, Progress::None(),
                      [&](const RunChanges& part) -> Status {
                        const DType dtype = base.layout().tensors()[part.run.tensor].dtype;
                        const std::tuple place(dtype, part.run.tensor, part.run.first_unit);
                        EXPECT_TRUE(parts == 0 || place > previous);
                        previous = place;
                        ++parts;
                        return {};
                      }));
  EXPECT_GT(parts, static_cast<int>(patch.info().blocks)) << "blocks span tensors";
}

TEST_F(VerifiedChangesTest, AStructuralPatchSaysItsLayoutUnlessTheReaderHasIt) {
  const ModelSource base(base_);
  PatchParts parts = PatchParts::Of(PatchBetween(base_, target_));
  parts.header[16] = std::byte{1};  // the feature bit
  const Patch patch = Must(Patch::FromBytes(parts.Sealed()));
  EXPECT_THAT(TargetLayout(patch, base.layout()), Fails(Code::kCorrupt, HasSubstr("does not carry it")));
}

TEST_F(VerifiedChangesTest, AnErrorOfTheTakerEndsTheWork) {
  const ModelSource base(base_);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base_, target_)));
  EXPECT_THAT(DecodeVerified(patch, base, DigestsOf(base), base.layout(), 2, Progress::None(),
                             [](const RunChanges&) -> Status { return Fail(Code::kNoSpace, "full"); }),
              Fails(Code::kNoSpace));
}

TEST_F(VerifiedChangesTest, DigestsThatTheBytesDoNotHaveAreFoundOut) {
  const ModelSource base(base_);
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base_, target_)));
  std::vector<RunningDigest> digests = DigestsOf(base);
  digests[2].b += 1;
  EXPECT_THAT(CheckBase(patch, base.layout(), digests), Fails(Code::kMismatch));
  EXPECT_THAT(Decode(patch, base, digests), Fails(Code::kCorrupt, HasSubstr(patch.info().target_model.Short())));
}

TEST_F(VerifiedChangesTest, AnAnnouncedTargetThatIsNotReachedIsCorrupt) {
  const ModelSource base(base_);
  PatchParts parts = PatchParts::Of(PatchBetween(base_, target_));
  parts.section(Section::kInfo)[Digest::kSize + 3] ^= std::byte{1};
  EXPECT_THAT(Decode(Must(Patch::FromBytes(parts.Sealed())), base, DigestsOf(base)),
              Fails(Code::kCorrupt, HasSubstr("announces")));
}

TEST_F(VerifiedChangesTest, CheckBaseNamesBothDigestsAndATensorThatDiffers) {
  const Patch patch = Must(Patch::FromBytes(PatchBetween(base_, target_)));
  const ModelSource right(base_), wrong(target_);
  EXPECT_THAT(CheckBase(patch, right.layout(), DigestsOf(right)), Succeeds());
  EXPECT_THAT(CheckBase(patch, wrong.layout(), DigestsOf(wrong)),
              Fails(Code::kMismatch,
                    AllOf(HasSubstr(patch.info().base_model.Short()), HasSubstr(patch.info().target_model.Short()))));
  TestModel retyped = base_;
  retyped["model.embed.weight"].dtype = DType::kF16;
  EXPECT_THAT(CheckBase(patch, ModelSource(retyped).layout(), DigestsOf(ModelSource(retyped))),
              Fails(Code::kMismatch,
                    AllOf(HasSubstr("'model.embed.weight'"), HasSubstr("F16 [64, 96]"), HasSubstr("BF16 [64, 96]"))));
}

TEST_F(VerifiedChangesTest, TheLayoutThatAPatchCarriesMustBeTheOneItAnnounces) {
  const ModelSource base(base_), other(target_, {.reversed = true});
  const Bytes bytes = PatchBetween(base, other);
  EXPECT_EQ(Must(TargetLayout(Must(Patch::FromBytes(bytes)), base.layout())).digest(), other.layout().digest());
  PatchParts parts = PatchParts::Of(bytes);
  parts.section(Section::kInfo)[3 * Digest::kSize] ^= std::byte{1};
  EXPECT_THAT(TargetLayout(Must(Patch::FromBytes(parts.Sealed())), base.layout()),
              Fails(Code::kCorrupt, HasSubstr("announces")));
  parts = PatchParts::Of(bytes);
  std::erase_if(parts.sections,
                [](const auto& section) { return section.first == static_cast<uint8_t>(Section::kLayout); });
  EXPECT_THAT(TargetLayout(Must(Patch::FromBytes(parts.Sealed())), base.layout()),
              Fails(Code::kCorrupt, HasSubstr("does not carry it")));
}

TEST_F(VerifiedChangesTest, ALayoutWithOtherTensorsNeedsTheStructuralFlag) {
  TestModel more = target_;
  more.tensors.push_back(RandomTensor("more", DType::kU8, {4}, random_));
  const ModelSource base(base_), target(more);
  PatchParts parts = PatchParts::Of(PatchBetween(base, target, {.allow_structural = true}));
  EXPECT_THAT(TargetLayout(Must(Patch::FromBytes(parts.Sealed())), base.layout()), Succeeds());
  parts.header[16] = std::byte{0};
  EXPECT_THAT(TargetLayout(Must(Patch::FromBytes(parts.Sealed())), base.layout()),
              Fails(Code::kCorrupt, HasSubstr("without saying so")));
}

// Blocks span tensors of one dtype; but old bytes and none at all do not go together.
TEST_F(VerifiedChangesTest, ABlockOfANewTensorAndOneThatIsNotIsRefused) {
  const TestModel small{.tensors = {{"a", DType::kU8, {10}, Bytes(10)}}, .side_files = {}};
  TestModel more = small;
  more.tensors.push_back({"b", DType::kU8, {10}, Bytes(10, std::byte{7})});
  const ModelSource base(small), target(more);
  const Patch good = Must(Patch::FromBytes(PatchBetween(base, target, {.allow_structural = true})));
  EXPECT_THAT(Decode(good, base, DigestsOf(base)), Succeeds());

  BlockChanges changes{.unit = 1, .all = true, .values = Bytes(20, std::byte{7})};
  Bytes payload;
  EncodeDense(changes.values, DType::kU8, payload);
  MemorySink sink;
  PatchWriter writer(sink);
  Must(writer.Begin(kFeatureStructural));
  Must(writer.AddBlock({.cells = 2, .method = Method::kDense, .changed = 20, .checksum = BlockChecksum(changes)},
                       payload));
  PatchHead head{.info = good.info(), .layout = good.head().layout};
  head.info.changed = 20;
  Must(writer.Finish(std::move(head)));
  EXPECT_THAT(Decode(Must(Patch::FromBytes(std::move(sink.bytes()))), base, DigestsOf(base)),
              Fails(Code::kCorrupt, HasSubstr("new tensor 'b' and one that is not")));
}

}  // namespace
}  // namespace skerry
