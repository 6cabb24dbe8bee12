// Parts over boxes of tensors, as a reader takes them: what fits, and what a hostile publisher could make of them.
#include "skerry/apply/boxed_changes.h"
#include "skerry/apply/patch_set.h"
#include "tests/testing/patches.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

class BoxedPartsTest : public ::testing::Test {
 protected:
  BoxedPartsTest() {
    model_.tensors = {RandomTensor("a", DType::kBF16, {40, 16}, random_),
                      RandomTensor("b", DType::kF32, {24}, random_)};
    before_.emplace(model_);
    model_.Nudge(0.2, random_);
    after_.emplace(model_);
    base_digests_ = Must(DigestTensors(*before_, 1, Progress::None()));
    target_digests_ = Must(DigestTensors(*after_, 1, Progress::None()));
  }

  static TensorBox Box(uint64_t tensor, std::vector<uint64_t> start, std::vector<uint64_t> size) {
    return {.tensor = tensor, .start = std::move(start), .size = std::move(size)};
  }
  // A patch of these boxes; it says `told`, where that is given.
  Patch PartOf(std::vector<TensorBox> boxes, std::vector<TensorBox> told = {}) const {
    const BoxView before = Must(BoxView::Of(*before_, boxes)), after = Must(BoxView::Of(*after_, boxes));
    if (told.empty()) told = before.boxes();
    return Must(Patch::FromBytes(PatchBetween(before, after, {.boxes = told})));
  }
  Result<std::vector<RunningDigest>> Decode(const std::vector<Patch>& patches,
                                            std::vector<PatchPart::TensorRange> tensors = {{.first = 0, .count = 2}}) {
    std::vector<PatchPart> parts(patches.size(), {.object = {}, .tensors = tensors, .boxed = boxed_});
    const Layout& layout = before_->layout();
    SKERRY_ASSIGN(const PatchSet set,
                  PatchSet::OfParts(patches, parts, layout, ModelDigest(layout.tensors_digest(), base_digests_),
                                    ModelDigest(layout.tensors_digest(), target_digests_)));
    SKERRY_TRY(set.CheckBase(layout, base_digests_));
    taken_.assign(2, {});
    for (size_t i = 0; i < 2; ++i) taken_[i] = before_->tensor(i).bytes;
    return set.DecodeVerified(*before_, base_digests_, layout, 1, Progress::None(), [&](RunChanges changes) -> Status {
      const auto unit = static_cast<uint64_t>(changes.changes.unit);
      Bytes& bytes = taken_[changes.run.tensor];
      if ((changes.run.first_unit + changes.run.units) * unit > bytes.size()) {
        return Fail(Code::kCorrupt, "units {} to {} of {} bytes", changes.run.first_unit,
                    changes.run.first_unit + changes.run.units, bytes.size());
      }
      ApplyBlock(changes.changes, bytes.data() + changes.run.first_unit * unit);
      return {};
    });
  }
  // Together these boxes lead from one model to the other.
  void ExpectTarget(const std::vector<std::vector<TensorBox>>& parts) {
    std::vector<Patch> patches;
    for (const auto& boxes : parts) patches.push_back(PartOf(boxes));
    EXPECT_EQ(Must(Decode(patches)), target_digests_);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(taken_[i], after_->tensor(i).bytes) << i;
  }

  Random random_{5};
  TestModel model_;
  std::optional<ModelSource> before_, after_;
  std::vector<RunningDigest> base_digests_, target_digests_;
  std::vector<Bytes> taken_;
  bool boxed_ = true;
};

TEST_F(BoxedPartsTest, RowsColumnsAndWholeTensorsLeadToTheSameModel) {
  ExpectTarget({{Box(0, {0, 0}, {17, 16}), Box(1, {0}, {24})}, {Box(0, {17, 0}, {23, 16})}});
  ExpectTarget({{Box(0, {0, 0}, {40, 4})}, {Box(0, {0, 4}, {40, 12}), Box(1, {0}, {10})}, {Box(1, {10}, {14})}});
  ExpectTarget({{Box(0, {0, 0}, {40, 8}), Box(0, {0, 8}, {40, 8}), Box(1, {0}, {24})}});
}

TEST_F(BoxedPartsTest, APartThatIsMissingShowsInTheModelDigest) {
  std::vector<Patch> one;
  one.push_back(PartOf({Box(0, {0, 0}, {17, 16}), Box(1, {0}, {24})}));
  EXPECT_THAT(Decode(one), Fails(Code::kCorrupt, HasSubstr("lead to model digest")));
}

TEST_F(BoxedPartsTest, RefusesBoxesThatOverlapAlsoOfOtherParts) {
  std::vector<Patch> parts;
  parts.push_back(PartOf({Box(0, {0, 0}, {20, 16})}));
  parts.push_back(PartOf({Box(0, {19, 0}, {21, 16}), Box(1, {0}, {24})}));
  EXPECT_THAT(Decode(parts), Fails(Code::kCorrupt, HasSubstr("a[0:20,0:16] and a[19:40,0:16] overlap")));
}

TEST_F(BoxedPartsTest, RefusesWhatTheManifestDoesNotSay) {
  std::vector<Patch> part;
  part.push_back(PartOf({Box(0, {0, 0}, {40, 16}), Box(1, {0}, {24})}));
  EXPECT_THAT(Decode(part, {{.first = 0, .count = 1}}), Fails(Code::kCorrupt, HasSubstr("a box of tensor 1")));
  boxed_ = false;
  EXPECT_THAT(Decode(part), Fails(Code::kCorrupt, HasSubstr("manifest says whole tensors, but it has 2 boxes")));
  boxed_ = true;
  std::vector<Patch> whole;
  whole.push_back(Must(Patch::FromBytes(PatchBetween(*before_, *after_))));
  EXPECT_THAT(Decode(whole), Fails(Code::kCorrupt, HasSubstr("manifest says boxes, but it has 0 boxes")));
}

// The patch is sound in itself; what it says about its boxes is not.
TEST_F(BoxedPartsTest, RefusesBoxesThatAreNotThoseOfThePatch) {
  const std::vector<TensorBox> real = {Box(0, {0, 0}, {20, 16})};
  const auto refused = [&](TensorBox told) {
    std::vector<Patch> part;
    part.push_back(PartOf(real, {std::move(told)}));
    return Decode(part);
  };
  EXPECT_THAT(refused(Box(0, {20, 0}, {20, 16})), Fails(Code::kMismatch, HasSubstr("made for boxes")));  // others
  EXPECT_THAT(refused(Box(0, {30, 0}, {20, 16})), Fails(Code::kCorrupt, HasSubstr("not within the tensor")));
  EXPECT_THAT(refused(Box(0, {UINT64_MAX, 0}, {20, 16})), Fails(Code::kCorrupt, HasSubstr("not within the tensor")));
  EXPECT_THAT(refused(Box(0, {0}, {20})), Fails(Code::kCorrupt, HasSubstr("number of axes")));
  EXPECT_THAT(refused(Box(0, {0, 1}, {20, 15})), Fails(Code::kCorrupt, HasSubstr("whole 8 bytes")));
  EXPECT_THAT(refused(Box(7, {0, 0}, {20, 16})), Fails(Code::kCorrupt, HasSubstr("tensor 7")));
  EXPECT_THAT(refused(Box(0, {0, 0}, {0, 16})), Fails(Code::kCorrupt, HasSubstr("empty")));
}

TEST_F(BoxedPartsTest, EveryDamagedByteIsFound) {
  const Patch good = PartOf({Box(0, {0, 0}, {40, 16}), Box(1, {0}, {24})});
  const BoxView before = Must(BoxView::Of(*before_, good.head().boxes)),
                after = Must(BoxView::Of(*after_, good.head().boxes));
  const Bytes bytes = PatchBetween(before, after, {.boxes = before.boxes()});
  for (size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    auto patch = Patch::FromBytes(damaged);
    if (!patch) continue;
    std::vector<Patch> part;
    part.push_back(*std::move(patch));
    EXPECT_FALSE(Decode(part)) << at;
  }
}

}  // namespace
}  // namespace skerry
