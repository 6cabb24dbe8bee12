// Several views of one run: each version comes in all of them, or in none.
#include "skerry/board/collect.h"
#include "skerry/publish/fork.h"
#include "skerry/publish/shard_release.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ViewPublishTest : public PublishTestBase {
 protected:
  ViewPublishTest() { Must(Init(run_)); }

  // The run's own checkpoint as it is now, and a smaller one with tensors of its own for each further view.
  struct Exported {
    Path own;
    std::map<std::string, Path> views;
  };
  Exported ExportAll() {
    Exported all{.own = Export(), .views = {}};
    for (auto& [view, model] : view_models_) {
      all.views[view] = directory_ / fmt::format("{}-{}", all.own.filename().string(), view);
      WriteCheckpoint(model, all.views[view], {});
    }
    return all;
  }
  static std::map<std::string, Checkpoint> Opened(const Exported& all) {
    std::map<std::string, Checkpoint> opened;
    for (const auto& [view, path] : all.views) opened.emplace(view, Must(Checkpoint::Open(path)));
    return opened;
  }
  static ViewCheckpoints Of(const std::map<std::string, Checkpoint>& opened) {
    ViewCheckpoints views;
    for (const auto& [view, checkpoint] : opened) views.emplace(view, &checkpoint);
    return views;
  }
  void Keep(const RunId& run, uint64_t version, const Exported& all) {
    versions_[run][version] = FilesOf(all.own);
    for (const auto& [view, path] : all.views) versions_[Must(run.View(view))][version] = FilesOf(path);
  }

  Result<InitReceipt> Init(const RunId& run) {
    const Exported all = ExportAll();
    const auto opened = Opened(all);
    const Checkpoint base = Must(Checkpoint::Open(all.own));
    auto receipt = InitRun(board_, run, base, Of(opened), BaseMode::kCopy, 1, clock_, Progress::None());
    if (receipt) Keep(run, 0, all);
    return receipt;
  }
  Result<PublishReceipt> Publish(const RunId& run, PublishOptions options = {}, std::string_view without = "") {
    if (options.state_directory.empty()) options.state_directory = directory_ / ("publisher-" + run.str());
    const Exported all = ExportAll();
    const auto opened = Opened(all);
    ViewCheckpoints views = Of(opened);
    if (const auto left_out = views.find(without); left_out != views.end()) views.erase(left_out);
    const Checkpoint checkpoint = Must(Checkpoint::Open(all.own));
    auto receipt = skerry::Publish(board_, run, checkpoint, views, options, clock_, Progress::None());
    if (receipt) Keep(run, receipt->version.number(), all);
    return receipt;
  }
  void Step() {
    PublishTestBase::Step();
    for (auto& [view, model] : view_models_) model.Nudge(0.01, random_);
  }
  void ExpectAllComesOut(const RunId& run) {
    ExpectEveryVersionComesOut(run);
    for (const auto& [view, model] : view_models_) ExpectEveryVersionComesOut(Must(run.View(view)));
  }
  // The board names one version for all views, which each of them has.
  void ExpectViewsAgree(const RunId& run) {
    const Head head = Must(board_.ReadHead(run)).head;
    const Manifest own = Must(board_.ReadManifest(head, head.version));
    ASSERT_EQ(own.views.size(), view_models_.size());
    for (const ViewManifest& named : own.views) {
      const Head view = Must(board_.ReadHead(Must(run.View(named.view)))).head;
      EXPECT_EQ(view.version, head.version);
      EXPECT_EQ(view.manifest.sha256, named.manifest);
      EXPECT_EQ(Must(board_.ReadManifest(view, view.version)).model, view.model);
    }
  }

  std::map<std::string, TestModel> view_models_ = {{"fp8-block", SmallModel(random_)}, {"nf4", SmallModel(random_)}};
  const RunId fp8_ = Run("grpo-1/fp8-block"), nf4_ = Run("grpo-1/nf4");
};

TEST_F(ViewPublishTest, EachVersionComesOutBitForBitInEveryView) {
  for (uint64_t version = 1; version <= 10; ++version) {
    Step();
    const PublishReceipt receipt = Must(Publish(run_, {.step = static_cast<int64_t>(version)}));
    EXPECT_EQ(receipt.version, Version(version));
    EXPECT_THAT(receipt.warning, IsEmpty());
    ASSERT_EQ(receipt.views.size(), 2u);
    EXPECT_EQ(receipt.views[0].first, "fp8-block");
    EXPECT_EQ(receipt.views[1].second.version, Version(version));
    EXPECT_EQ(receipt.views[1].second.model, Must(board_.ReadHead(nf4_)).head.model);
    EXPECT_EQ(Must(board_.ReadManifest(fp8_, Version(version))).step, static_cast<int64_t>(version));
    ExpectViewsAgree(run_);
  }
  ExpectAllComesOut(run_);
}

TEST_F(ViewPublishTest, WhatChangesInOneViewAloneMakesAVersionInAll) {
  EXPECT_FALSE(Must(Publish(run_)).published);
  view_models_.at("nf4").Nudge(0.01, random_);
  const PublishReceipt receipt = Must(Publish(run_));
  EXPECT_TRUE(receipt.published);
  EXPECT_EQ(receipt.changed, 0u);
  EXPECT_EQ(receipt.views[0].second.changed, 0u);
  EXPECT_GT(receipt.views[1].second.changed, 0u);
  EXPECT_FALSE(Must(Publish(run_)).published);
  ExpectViewsAgree(run_);
  ExpectAllComesOut(run_);
}

TEST_F(ViewPublishTest, AVersionThatLacksAViewIsRefusedByName) {
  Step();
  EXPECT_THAT(Publish(run_, {}, "nf4"), Fails(Code::kInvalid, HasSubstr("fp8-block, nf4; given: fp8-block")));
  const Checkpoint own = Must(Checkpoint::Open(Export()));
  const PublishOptions options{.state_directory = directory_ / "publisher-grpo-1"};
  EXPECT_THAT(skerry::Publish(board_, run_, own, options, clock_, Progress::None()), Fails(Code::kInvalid));
  EXPECT_THAT(skerry::Publish(board_, nf4_, own, options, clock_, Progress::None()), Fails(Code::kInvalid));
  EXPECT_EQ(HeadOf(run_), Version(0));
  auto shards = Must(ShardRelease::Open(board_, run_, directory_ / "shards"));
  EXPECT_THAT(shards.Begin(/*takes_over=*/false, clock_), Fails(Code::kUnsupported));
  EXPECT_THAT(CatchUp(Run("grpo-1/mxfp4"), directory_ / "reader"),
              Fails(Code::kInvalid, HasSubstr("its views: fp8-block, nf4")));
}

TEST_F(ViewPublishTest, AFailureAtAnyPointLeavesAllViewsAtOneVersion) {
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("publish.") && !name.starts_with("apply.") && !name.starts_with("pull.")) continue;
    for (int hit = 1; hit <= 3; ++hit) {
      SCOPED_TRACE(fmt::format("{}@{}", name, hit));
      Step();
      const auto before = HeadOf(run_);
      const Exported now = ExportAll();
      {
        const WithFailpoints with(fmt::format("{}:error@{}", name, hit));
        (void)Publish(run_);
      }
      ExpectViewsAgree(run_);
      if (HeadOf(run_) != before) Keep(run_, HeadOf(run_).number(), now);
      Step();
      const PublishReceipt receipt = Must(Publish(run_));
      EXPECT_TRUE(receipt.published);
      ExpectViewsAgree(run_);
    }
  }
  ExpectAllComesOut(run_);
}

TEST_F(ViewPublishTest, OfTwoPublishersAtOnceOneLosesInAllViews) {
  Step();
  Must(Publish(run_));
  store_->before_swap = [&] {
    Step();
    Must(Publish(run_, {.state_directory = directory_ / "other", .take_over = true}));
  };
  view_models_.at("nf4").Nudge(0.01, random_);
  EXPECT_THAT(Publish(run_), Fails(Code::kConflict));
  EXPECT_EQ(HeadOf(run_), Version(2));
  ExpectViewsAgree(run_);
  ExpectAllComesOut(run_);
}

TEST_F(ViewPublishTest, AForkHasTheViewsOfItsRun) {
  Step();
  Must(Publish(run_));
  const RunId fork = Run("grpo-2");
  Must(ForkRun(board_, fork, run_, Version(1), clock_));
  ExpectViewsAgree(fork);
  for (const auto& [view, model] : view_models_) {
    versions_[Must(fork.View(view))][0] = versions_[Must(run_.View(view))][1];
  }
  versions_[fork][0] = versions_[run_][1];
  Step();
  Must(Publish(fork));
  ExpectViewsAgree(fork);
  ExpectAllComesOut(fork);
  EXPECT_FALSE(Must(ForkRun(board_, fork, run_, Version(1), clock_)).created);

  // A single view can be a run of its own.
  const RunId alone = Run("only-nf4");
  Must(ForkRun(board_, alone, nf4_, std::nullopt, clock_));
  EXPECT_TRUE(Must(board_.ReadHead(alone)).head.views.empty());
  EXPECT_EQ(Must(board_.ReadHead(alone)).head.model, Must(board_.ReadHead(nf4_)).head.model);
  EXPECT_THAT(ForkRun(board_, fork, Run("grpo-2/nf4"), std::nullopt, clock_), Fails(Code::kInvalid));
}

TEST_F(ViewPublishTest, GcKeepsTheSameVersionsOfEveryView) {
  for (int version = 1; version <= 24; ++version) {
    Step();
    Must(Publish(run_, {.anchor_tail = 0.01}));
  }
  const CollectOptions options{.policy = {.keep_versions = 2}, .grace = std::chrono::seconds(0), .run = run_};
  const CollectReceipt receipt = Must(Collect(board_, options, clock_));
  std::vector<std::string> runs;
  for (const CollectedRun& run : receipt.runs) {
    runs.push_back(run.run.str());
    EXPECT_GT(run.count(CollectedKey::State::kRemoved), 0u) << run.run;
  }
  EXPECT_THAT(runs, ElementsAre("grpo-1", "grpo-1/fp8-block", "grpo-1/nf4"));
  for (auto& [run, versions] : versions_) versions.erase(versions.begin(), versions.find(23));
  ExpectAllComesOut(run_);
}

class SharedPartTest : public ViewPublishTest {
 protected:
  SharedPartTest() {
    view_models_.erase("nf4");
    model_.tensors.push_back(RandomTensor("weight", DType::kBF16, {60, 64}, random_));
    TestModel& view = view_models_.at("fp8-block");
    view = model_;
    view.tensors.back() = RandomTensor("weight", DType::kF8E4M3, {60, 64}, random_);
    view.tensors.push_back(RandomTensor("weight_scale_inv", DType::kF32, {1, 1}, random_));
    Must(Init(shared_));
  }
  // Everything moves; what is not quantised is the same in the view.
  void StepTogether() {
    Step();
    TestModel& view = view_models_.at("fp8-block");
    for (const TestTensor& tensor : model_.tensors) {
      if (tensor.name != "weight") view[tensor.name] = tensor;
    }
  }
  std::vector<std::string> DeltaKeys(const RunId& run, uint64_t version) {
    std::vector<std::string> keys;
    const Manifest manifest = Must(board_.ReadManifest(run, Version(version)));
    for (const PatchPart& part : manifest.edges.at(0).parts) {
      keys.push_back(part.object.key);
    }
    return keys;
  }

  const RunId shared_ = Run("shared"), view_ = Run("shared/fp8-block");
};

TEST_F(SharedPartTest, WhatIsNotQuantisedTravelsInOneObjectForAllViews) {
  for (uint64_t version = 1; version <= 9; ++version) {
    StepTogether();
    const PublishReceipt receipt = Must(Publish(shared_));
    const auto own = DeltaKeys(shared_, version), view = DeltaKeys(view_, version);
    ASSERT_EQ(own.size(), 2u);
    ASSERT_EQ(view.size(), 2u);
    EXPECT_EQ(own[1], view[1]);
    EXPECT_NE(own[0], view[0]);
    const PublishReceipt& of_view = receipt.views.at(0).second;
    EXPECT_EQ(of_view.shared_bytes, Must(board_.ReadManifest(view_, Version(version))).edges[0].parts[1].object.size);
    EXPECT_LT(of_view.shared_bytes, of_view.patch_bytes);
  }
  ExpectEveryVersionComesOut(shared_);
  ExpectEveryVersionComesOut(view_);
  // gc of a board that keeps other versions of the view than of the run takes nothing from it.
  const CollectOptions options{.policy = {.keep_versions = 3}, .grace = std::chrono::seconds(0), .run = shared_};
  Must(Collect(board_, options, clock_));
  for (const RunId& run : {shared_, view_}) {
    versions_[run].erase(versions_[run].begin(), versions_[run].find(7));
    ExpectEveryVersionComesOut(run);
  }
}

TEST_F(SharedPartTest, WhatDiffersInAViewIsNotTakenFromAnother) {
  StepTogether();
  Must(Publish(shared_));
  // The view's own copy of one of those tensors goes another way, and back.
  StepTogether();
  TestTensor& copy = view_models_.at("fp8-block").tensors.front();
  copy.bytes[0] ^= std::byte{1};
  const PublishReceipt apart = Must(Publish(shared_));
  EXPECT_EQ(apart.views.at(0).second.shared_bytes, 0u);
  EXPECT_NE(DeltaKeys(shared_, 2).back(), DeltaKeys(view_, 2).back());
  StepTogether();
  EXPECT_EQ(Must(Publish(shared_)).views.at(0).second.shared_bytes, 0u);  // they begin at different bytes
  StepTogether();
  EXPECT_GT(Must(Publish(shared_)).views.at(0).second.shared_bytes, 0u);
  ExpectEveryVersionComesOut(shared_);
  ExpectEveryVersionComesOut(view_);
}

TEST_F(SharedPartTest, AViewThatChangesItsFilesHasPartsOfItsOwn) {
  StepTogether();
  form_.shards = 3;
  EXPECT_EQ(Must(Publish(shared_)).views.at(0).second.shared_bytes, 0u);
  StepTogether();
  EXPECT_GT(Must(Publish(shared_)).views.at(0).second.shared_bytes, 0u);
  ExpectEveryVersionComesOut(shared_);
  ExpectEveryVersionComesOut(view_);
}

TEST_F(ViewPublishTest, TheSameBaseAgainIsANoOpAndOtherViewsAreAConflict) {
  EXPECT_FALSE(Must(Init(run_)).created);
  view_models_.erase("nf4");
  EXPECT_THAT(Init(run_), Fails(Code::kConflict));
  view_models_.emplace("mxfp4", SmallModel(random_));
  EXPECT_THAT(Init(run_), Fails(Code::kConflict, HasSubstr("[fp8-block, nf4], not [fp8-block, mxfp4]")));
  EXPECT_THAT(Init(fp8_), Fails(Code::kInvalid));
}

}  // namespace
}  // namespace skerry
