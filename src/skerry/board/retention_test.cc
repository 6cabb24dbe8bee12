#include "skerry/board/retention.h"

#include <algorithm>
#include <set>

#include "skerry/board/inventory.h"
#include "skerry/board/run_testing.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RetentionTest : public testing::Test {
 protected:
  static constexpr uint64_t kNow = 1'000'000;

  Retention Decide(uint64_t keep, std::string_view run = "r") {
    StoredBoard stored = Must(TakeInventory(board_));
    if (lease_) stored.at(r_.id()).leases = {*lease_};
    decided_ = DecideRetention(stored, {.keep_versions = keep}, kNow);
    return decided_.at(RunNamed(run));
  }
  static std::vector<uint64_t> Numbers(const std::map<Version, std::string>& versions) {
    std::vector<uint64_t> numbers;
    for (const auto& [version, why] : versions) numbers.push_back(version.number());
    return numbers;
  }
  static std::vector<std::string> Keys(const Retention& retention) {
    std::vector<std::string> keys;
    for (const GoingKey& going : retention.goes) keys.push_back(going.key);
    return keys;
  }
  static bool Goes(const Retention& retention, std::string_view key) {
    const std::vector<std::string> keys = Keys(retention);
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Board board_ = Must(Board::Create(store_));
  RunOnBoard r_{board_, "r"};
  std::optional<Lease> lease_;
  std::map<RunId, Retention> decided_;
};

TEST_F(RetentionTest, D9_TheLastVersionsStayWithAnAnchorAndAnUnbrokenTail) {
  r_.PublishTo(12, 10);
  const Retention retention = Decide(3);
  EXPECT_THAT(Numbers(retention.versions), ElementsAre(10, 11, 12));
  EXPECT_THAT(Numbers(retention.anchors), ElementsAre(10));
  EXPECT_TRUE(Goes(retention, ManifestKey(r_.id(), Version(9))));
  EXPECT_EQ(retention.problem, "");
}

TEST_F(RetentionTest, D9_AVersionBetweenAnchorsKeepsAllFromTheAnchorBeforeIt) {
  r_.PublishTo(12, 10);
  const Retention retention = Decide(5);
  EXPECT_THAT(Numbers(retention.versions), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_EQ(retention.versions.at(Version(12)), "the head");
  EXPECT_EQ(retention.versions.at(Version(8)), "among the last 5");
  EXPECT_EQ(retention.versions.at(Version(3)), "on the way to version 8");
  EXPECT_THAT(retention.goes, IsEmpty());
}

TEST_F(RetentionTest, NothingOfAYoungRunGoes) {
  r_.PublishTo(5);
  EXPECT_THAT(Decide(100).goes, IsEmpty());
}

TEST_F(RetentionTest, ALiveLeaseKeepsItsVersionsAndTheWayToThemAndAnExpiredOneNothing) {
  r_.PublishTo(30, 10);
  lease_ = Lease{.run = r_.id(),
                 .reader = "slow",
                 .needs_from = Version(12),
                 .needs_to = Version(13),
                 .expires = kNow + 1,
                 .time = ""};
  const Retention leased = Decide(2);
  EXPECT_THAT(Numbers(leased.versions), ElementsAre(10, 11, 12, 13, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30));
  EXPECT_THAT(leased.versions.at(Version(12)), HasSubstr("leased to reader slow until 1970-01-01T00:16:40.001Z"));
  lease_->expires = kNow;
  EXPECT_EQ(Numbers(Decide(2).versions).front(), 20);
}

TEST_F(RetentionTest, AVersionThatARunWasForkedFromStaysAsLongAsTheForkNeedsIt) {
  r_.PublishTo(25, 10);
  RunOnBoard fork(board_, "fork");
  fork.ForkOf(r_, 13);
  fork.PublishTo(3);
  const Retention pinned = Decide(1);
  EXPECT_THAT(Numbers(pinned.versions), ElementsAre(10, 11, 12, 13, 20, 21, 22, 23, 24, 25));
  EXPECT_EQ(pinned.versions.at(Version(13)), "run fork was forked from it");
  EXPECT_THAT(Numbers(decided_.at(fork.id()).versions), ElementsAre(0, 1, 2, 3)) << "the fork's way goes through 0";

  fork.Publish({.anchor = true});
  EXPECT_EQ(Numbers(Decide(1).versions).front(), 20) << "the fork has an anchor of its own";
  EXPECT_THAT(Numbers(decided_.at(fork.id()).versions), ElementsAre(4));
}

TEST_F(RetentionTest, AForkOfAForkKeepsBothOrigins) {
  r_.PublishTo(20, 10);
  RunOnBoard child(board_, "child"), grandchild(board_, "grandchild");
  child.ForkOf(r_, 5);
  child.PublishTo(2);
  grandchild.ForkOf(child, 1);
  child.Publish({.anchor = true});
  EXPECT_THAT(Numbers(Decide(1).versions), ElementsAre(0, 1, 2, 3, 4, 5, 20));
  EXPECT_THAT(Numbers(decided_.at(child.id()).versions), ElementsAre(0, 1, 3));
}

TEST_F(RetentionTest, LeftoversGoOnceTheirVersionIsPublishedByAnother) {
  r_.PublishTo(2);
  const std::string delta = r_.LeaveDelta(), manifest = r_.LeaveManifest();
  EXPECT_THAT(Decide(100).goes, IsEmpty()) << "a publisher may be at work on version 3";
  r_.Publish();
  const Retention retention = Decide(100);
  EXPECT_THAT(Keys(retention), ElementsAre(manifest, delta));
  EXPECT_EQ(retention.goes[0].why, "a version 3 that was not published");
  EXPECT_EQ(retention.goes[1].why, "version 3 does not name it");
}

TEST_F(RetentionTest, PartsOfAnAnchorGoOnceANewerOneIsNamed) {
  r_.PublishTo(12, 10);
  const std::string before = r_.LeaveAnchorPart(7), beside = r_.LeaveAnchorPart(10), after = r_.LeaveAnchorPart(11);
  EXPECT_THAT(Keys(Decide(100)), ElementsAre(before, beside)) << "anchor 11 may be in the making";
  r_.Publish({.anchor = true});
  EXPECT_THAT(Keys(Decide(100)), ElementsAre(before, beside, after));
}

TEST_F(RetentionTest, D14_TheOldAnchorStaysUntilTheNewOneIsNamedAndComplete) {
  r_.PublishTo(5);
  const std::string leftover = r_.LeaveAnchorPart(5);
  EXPECT_THAT(Numbers(Decide(1).anchors), ElementsAre(0)) << "the new one is in the making";
  r_.Publish({.anchor = true});
  const Anchor anchor = Must(board_.ReadAnchor(r_.id(), r_.anchors()[0]));
  const std::string part = anchor.parts[0].object.key;
  EXPECT_THAT(Numbers(Decide(1).anchors), ElementsAre(6));
  Must(store_->Delete(part));
  const Retention retention = Decide(1);
  EXPECT_THAT(Numbers(retention.anchors), ElementsAre(0, 6));
  EXPECT_THAT(Keys(retention), ElementsAre(leftover));
  EXPECT_THAT(retention.notes, ElementsAre(HasSubstr(part)));
}

TEST_F(RetentionTest, WhereNoWayLeadsToTheHeadNothingGoes) {
  r_.PublishTo(12, 10);
  Must(store_->Delete(ManifestKey(r_.id(), Version(11))));
  const Retention retention = Decide(1);
  EXPECT_THAT(retention.problem, HasSubstr("no complete anchor leads to version 12 (the head)"));
  EXPECT_THAT(retention.goes, IsEmpty());
}

TEST_F(RetentionTest, ARunThatIsLeftAloneKeepsWhatItWasForkedFrom) {
  r_.PublishTo(20, 10);
  RunOnBoard fork(board_, "fork");
  fork.ForkOf(r_, 3);
  fork.Publish({.anchor = true});
  fork.PublishTo(3);
  Must(store_->Delete(ManifestKey(fork.id(), Version(2))));
  EXPECT_THAT(Numbers(Decide(1).versions), ElementsAre(0, 1, 2, 3, 20));
  EXPECT_NE(decided_.at(fork.id()).problem, "");
}

TEST_F(RetentionTest, TheOldestVersionsComeFirstAndTheirManifestsBeforeAllElse) {
  r_.PublishTo(12, 4);
  const std::vector<std::string> keys = Keys(Decide(1));
  const auto rank = [](const std::string& key) {
    if (key.find("/manifest") != std::string::npos) return 0;
    return key.find("/anchor-") != std::string::npos ? 1 : 2;
  };
  EXPECT_TRUE(
      std::is_sorted(keys.begin(), keys.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); }));
  std::vector<uint64_t> manifests;
  for (const std::string& key : keys) {
    if (key.ends_with("/manifest.json")) manifests.push_back(PlaceOf(r_.id(), key)->version.number());
  }
  EXPECT_THAT(manifests, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(RetentionTest, WhatAKeptVersionOfAnotherRunNamesStaysWhereverItLies) {
  r_.PublishTo(12, 10);
  StoredBoard stored = Must(TakeInventory(board_));
  RunOnBoard other(board_, "other");
  other.PublishTo(0);
  StoredRun reader = Must(TakeInventory(board_)).at(other.id());
  const std::string key = stored.at(r_.id()).manifests.at(Version(2)).manifest.tensor_digests.key;
  reader.manifests.at(Version(0)).manifest.tensor_digests.key = key;
  stored.emplace(other.id(), reader);
  const Retention retention = DecideRetention(stored, {.keep_versions = 1}, kNow).at(r_.id());
  EXPECT_FALSE(Goes(retention, key));
  EXPECT_TRUE(Goes(retention, ManifestKey(r_.id(), Version(2))));
}

TEST_F(RetentionTest, ReceiptsOfPartsGoOnceTheHeadIsPastTheirVersion) {
  r_.PublishTo(1);
  const std::string receipt = VersionPrefix(r_.id(), Version(1)) + "parts/step-1-000-of-002.json";
  Must(store_->PutIfAbsent(receipt, MemorySource("{}")));
  EXPECT_THAT(Decide(100).goes, IsEmpty());
  r_.Publish();
  EXPECT_THAT(Keys(Decide(100)), ElementsAre(receipt));
}

TEST_F(RetentionTest, WhatElseLiesBesideAKeptVersionStays) {
  r_.PublishTo(2);
  Must(store_->PutIfAbsent(VersionPrefix(r_.id(), Version(1)) + "notes.txt", MemorySource("evaluated, 0.71")));
  Must(store_->PutIfAbsent("runs/r/versions/readme", MemorySource("x")));
  Must(store_->PutIfAbsent("runs/r/evaluations/1", MemorySource("x")));
  EXPECT_THAT(Decide(100).goes, IsEmpty());
}

TEST_F(RetentionTest, AnAnchorBetweenKeptVersionsStaysSinceAPlannerWouldTakeIt) {
  r_.PublishTo(9, 3);
  EXPECT_THAT(Numbers(Decide(5).anchors), ElementsAre(3, 6, 9));
}

TEST_F(RetentionTest, ADeadEndOfAnEdgeIsLeftForAnotherWay) {
  r_.PublishTo(16);
  StoredBoard stored = Must(TakeInventory(board_));
  StoredRun& run = stored.at(r_.id());
  for (const uint64_t gone : {3, 12}) run.manifests.erase(Version(gone));
  const Retention retention = DecideRetention(stored, {.keep_versions = 1}, kNow).at(r_.id());
  EXPECT_EQ(retention.problem, "");
  EXPECT_THAT(Numbers(retention.versions), ElementsAre(0, 8, 16)) << "over the skips of 8";
}

TEST(PlaceOf, KnowsTheFoldersOfARun) {
  const RunId run = RunNamed("r");
  EXPECT_EQ(PlaceOf(run, "runs/r/versions/000000007/a/b")->name, "a/b");
  EXPECT_TRUE(PlaceOf(run, "runs/r/anchors/000000007/x")->is_anchor);
  EXPECT_EQ(PlaceOf(run, "runs/r/versions/000000007/")->version, Version(7));
  for (const char* key : {"runs/q/versions/000000007/x", "runs/r/versions/7/x", "runs/r/versions/000000007",
                          "runs/r/layouts/000000007/x", "runs/r/head", "runs/rr/versions/000000007/x"}) {
    EXPECT_FALSE(PlaceOf(run, key)) << key;
  }
}

}  // namespace
}  // namespace skerry
