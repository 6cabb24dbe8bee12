#include "skerry/board/collect.h"

#include <algorithm>

#include "skerry/board/collect_mark.h"
#include "skerry/board/run_testing.h"

namespace skerry {
namespace {

using std::chrono::minutes;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using State = CollectedKey::State;

// Lets a test do something just before a swap.
class InterruptibleBoard : public MemoryStore {
 public:
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    if (auto now = std::exchange(before_swap, nullptr)) now();
    return MemoryStore::CompareAndSwap(key, expected, bytes);
  }
  std::function<void()> before_swap;
};

class CollectTest : public testing::Test {
 protected:
  ~CollectTest() override { SetFailpoints(""); }

  Result<CollectReceipt> TryCollect(uint64_t keep, minutes grace = minutes(60)) {
    return Collect(board_, {.policy = {.keep_versions = keep}, .grace = grace}, clock_);
  }
  CollectedRun CollectRun(uint64_t keep, minutes grace = minutes(60)) {
    return Must(TryCollect(keep, grace)).runs.at(0);
  }
  std::vector<std::string> Keys() { return Must(store_->List("runs/")); }
  bool IsThere(const std::string& key) { return store_->Stat(key).has_value(); }
  bool IsThere(uint64_t version) { return IsThere(ManifestKey(r_.id(), Version(version))); }

  std::shared_ptr<InterruptibleBoard> store_ = std::make_shared<InterruptibleBoard>();
  Board board_ = Must(Board::Create(store_));
  RunOnBoard r_{board_, "r"};
  TestClock clock_;
};

TEST_F(CollectTest, CondemnsFirstAndRemovesWhenTheGraceIsOver) {
  r_.PublishTo(12, 10);
  const std::vector<std::string> before = Keys();
  const CollectedRun first = CollectRun(3);
  EXPECT_EQ(first.count(State::kRemoved), 0);
  EXPECT_GT(first.count(State::kCondemned), 30);
  std::vector<std::string> with_mark = before;
  with_mark.push_back(CollectMarkKey(r_.id()));
  std::sort(with_mark.begin(), with_mark.end());
  EXPECT_EQ(Keys(), with_mark);

  clock_.Pass(minutes(59));
  EXPECT_EQ(CollectRun(3).count(State::kRemoved), 0);
  clock_.Pass(minutes(1));
  const CollectedRun second = CollectRun(3);
  EXPECT_EQ(second.count(State::kRemoved), first.count(State::kCondemned));
  EXPECT_EQ(second.bytes(State::kRemoved), first.bytes(State::kCondemned));
  EXPECT_GT(second.bytes(State::kRemoved), 0);
  for (uint64_t version = 0; version <= 12; ++version) EXPECT_EQ(IsThere(version), version >= 10) << version;
  EXPECT_TRUE(Must(ReadCollectMark(board_, r_.id())).mark.condemned.empty());
  EXPECT_THAT(CollectRun(3).keys, IsEmpty());
}

TEST_F(CollectTest, WhatALaterDecisionWantsAgainLosesItsMark) {
  r_.PublishTo(12, 10);
  CollectRun(3);
  {
    LeaseHolder reader(board_, r_.id(), "slow", clock_, minutes(90));
    Must(reader.Hold(Version(4), Version(6)));
    clock_.Pass(minutes(61));
    CollectRun(3);
    for (uint64_t version = 0; version <= 12; ++version) {
      EXPECT_EQ(IsThere(version), version <= 6 || version >= 10) << version;
    }
  }
  const CollectedRun after = CollectRun(3);
  EXPECT_EQ(after.count(State::kRemoved), 0) << "the grace of what was leased begins now";
  EXPECT_GT(after.count(State::kCondemned), 0);
}

TEST_F(CollectTest, ADryRunExplainsAndChangesNothing) {
  r_.PublishTo(12, 10);
  const std::vector<std::string> before = Keys();
  const CollectOptions options{.policy = {.keep_versions = 3}, .grace = minutes(0), .dry_run = true};
  const CollectedRun run = Must(Collect(board_, options, clock_)).runs.at(0);
  EXPECT_EQ(Keys(), before);
  EXPECT_THAT(run.keys.at(0).key, HasSubstr("versions/000000000/manifest"));
  EXPECT_EQ(run.keys.at(0).state, State::kRemoved) << "what would be done";
  EXPECT_EQ(run.keys.at(0).why, "version 0 is not among the last 3, and nothing needs it");
}

TEST_F(CollectTest, ACallThatFailedAnywhereIsFinishedByTheNextOne) {
  r_.PublishTo(12, 5);
  std::vector<std::string> expected;
  {
    const auto copy = std::make_shared<InterruptibleBoard>();
    for (const std::string& key : Must(store_->List(""))) {
      const Object object = Must(store_->Get(key, 1 << 20));
      Must(copy->PutIfAbsent(key, MemorySource(object.bytes)));
    }
    Must(Collect(Must(Board::Open(copy)), {.policy = {.keep_versions = 2}, .grace = minutes(0)}, clock_));
    expected = Must(copy->List("runs/"));
  }
  int failures = 0;
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("gc.")) continue;
    for (int passage = 1; passage <= 200; ++passage) {
      const auto copy = std::make_shared<InterruptibleBoard>();
      for (const std::string& key : Must(store_->List(""))) {
        const Object object = Must(store_->Get(key, 1 << 20));
        Must(copy->PutIfAbsent(key, MemorySource(object.bytes)));
      }
      const Board board = Must(Board::Open(copy));
      const auto collect = [&] {
        return Collect(board, {.policy = {.keep_versions = 2}, .grace = minutes(0)}, clock_);
      };
      SetFailpoints(fmt::format("{}:error@{}", name, passage));
      const Result<CollectReceipt> failed = collect();
      SetFailpoints("");
      // The head can be read with all that it names, and a way from an anchor leads there.
      const CollectReceipt left =
          Must(Collect(board, {.policy = {.keep_versions = 2}, .grace = minutes(0), .dry_run = true}, clock_));
      EXPECT_EQ(left.runs[0].retention.problem, "");
      Must(collect());
      EXPECT_EQ(Must(copy->List("runs/")), expected) << name << " " << passage;
      if (failed) break;
      EXPECT_THAT(failed, Fails(Code::kIo, HasSubstr(name)));
      ++failures;
    }
  }
  EXPECT_GT(failures, 40);
}

TEST_F(CollectTest, TwoAtOnceHarmNothing) {
  r_.PublishTo(12, 10);
  CollectRun(3);
  clock_.Pass(minutes(60));
  store_->before_swap = [&] { CollectRun(3); };
  EXPECT_THAT(TryCollect(3), Fails(Code::kConflict, AllOf(HasSubstr("another gc"), HasSubstr("run r"))));
  for (uint64_t version = 0; version <= 12; ++version) EXPECT_EQ(IsThere(version), version >= 10) << version;
  CollectRun(3);
}

TEST_F(CollectTest, ExpiredLeasesGoAndLiveOnesStay) {
  r_.PublishTo(1);
  LeaseHolder dead(board_, r_.id(), "dead", clock_, minutes(1)), living(board_, r_.id(), "living", clock_, minutes(9));
  Must(dead.Hold(Version(0), Version(1)));
  Must(living.Hold(Version(0), Version(1)));
  clock_.Pass(minutes(1));
  EXPECT_THAT(CollectRun(9).leases, ElementsAre(LeaseKey(r_.id(), "dead")));
  EXPECT_FALSE(IsThere(LeaseKey(r_.id(), "dead")));
  EXPECT_TRUE(IsThere(LeaseKey(r_.id(), "living")));
}

TEST_F(CollectTest, ALeaseThatIsGarbageIsToldOfAndPinsNothing) {
  r_.PublishTo(1);
  Must(store_->CompareAndSwap(LeaseKey(r_.id(), "x"), std::nullopt, AsBytes("{}")));
  EXPECT_THAT(CollectRun(1).retention.notes, ElementsAre(HasSubstr("leases/x.json is no lease")));
}

TEST_F(CollectTest, NothingGoesAnywhereWhenSomeManifestCannotBeRead) {
  r_.PublishTo(12, 10);
  RunOnBoard other(board_, "other");
  other.PublishTo(1);
  Must(store_->Delete(ManifestKey(other.id(), Version(0))));
  Must(store_->PutIfAbsent(ManifestKey(other.id(), Version(0)), MemorySource("{")));
  const std::vector<std::string> before = Keys();
  EXPECT_THAT(TryCollect(1, minutes(0)),
              Fails(Code::kCorrupt, AllOf(HasSubstr("run other"), HasSubstr("000000000/manifest.json"))));
  EXPECT_EQ(Keys(), before);
}

TEST_F(CollectTest, OneRunCanBeCollectedAlone) {
  r_.PublishTo(4, 2);
  RunOnBoard other(board_, "other");
  other.PublishTo(4, 2);
  const CollectOptions options{.policy = {.keep_versions = 1}, .grace = minutes(0), .run = other.id()};
  EXPECT_EQ(Must(Collect(board_, options, clock_)).runs.size(), 1);
  EXPECT_TRUE(IsThere(0));
  EXPECT_FALSE(IsThere(ManifestKey(other.id(), Version(0))));
  const CollectOptions missing{.run = RunNamed("nobody")};
  EXPECT_THAT(Collect(board_, missing, clock_), Fails(Code::kNotFound, HasSubstr("nobody")));
}

TEST_F(CollectTest, D1_AReaderThatPlannedBeforeTheVersionsLeftHasTheGraceAndThenPlansFromTheHead) {
  r_.PublishTo(1, 1);
  const Manifest planned = Must(board_.ReadManifest(r_.id(), Version(1)));
  r_.PublishTo(5, 1);
  CollectRun(2);
  clock_.Pass(minutes(59));
  CollectRun(2);
  Must(board_.ReadObject(planned.edges[0].parts[0].object, 1 << 20));
  clock_.Pass(minutes(1));
  CollectRun(2);
  EXPECT_THAT(board_.ReadObject(planned.edges[0].parts[0].object, 1 << 20), Fails(Code::kNotFound));
  const Head head = r_.head();
  EXPECT_EQ(head.version, Version(5));
  const Manifest newest = Must(board_.ReadManifest(head, head.version));
  Must(board_.ReadObject(newest.edges[0].parts[0].object, 1 << 20));
  Must(board_.ReadAnchor(r_.id(), newest.anchors[0]));
}

TEST_F(CollectTest, D1_AReaderWithALeaseKeepsItsVersionWhateverIsPublished) {
  r_.PublishTo(1, 1);
  LeaseHolder reader(board_, r_.id(), "slow", clock_, minutes(300));
  Must(reader.Hold(Version(1), Version(1)));
  const Manifest planned = Must(board_.ReadManifest(r_.id(), Version(1)));
  r_.PublishTo(5, 1);
  for (int i = 0; i < 3; ++i) {
    CollectRun(2);
    clock_.Pass(minutes(61));
  }
  Must(board_.ReadObject(planned.edges[0].parts[0].object, 1 << 20));
  Must(board_.ReadAnchor(r_.id(), planned.anchors[0]));
  EXPECT_FALSE(IsThere(0));
}

TEST_F(CollectTest, D3_LeftoversOfAKilledPublishGoWhenAnotherTookItsNumber) {
  r_.PublishTo(2);
  const std::string delta = r_.LeaveDelta(), manifest = r_.LeaveManifest(), part = r_.LeaveAnchorPart(2);
  CollectRun(9, minutes(0));
  EXPECT_TRUE(IsThere(delta) && IsThere(manifest) && IsThere(part));
  r_.Publish({.anchor = true});
  CollectRun(9, minutes(0));
  EXPECT_FALSE(IsThere(delta) || IsThere(manifest) || IsThere(part));
  EXPECT_THAT(CollectRun(9, minutes(0)).keys, IsEmpty());
}

TEST_F(CollectTest, E13_AThousandAndOneVersionsAreAllSeen) {
  r_.PublishTo(1000, 250);
  const CollectedRun run = CollectRun(1, minutes(0));
  EXPECT_EQ(run.count(State::kWaiting), 0);
  EXPECT_EQ(Must(store_->ListNames("runs/r/versions/")), std::vector<std::string>{"000001000"});
  EXPECT_EQ(Must(store_->ListNames("runs/r/anchors/")), std::vector<std::string>{"000001000"});
  EXPECT_THAT(run.retention.anchors, Contains(testing::Key(Version(1000))));
}

TEST_F(CollectTest, MoreThanAMarkHoldsWaitsForTheNextCall) {
  r_.PublishTo(2, 2);
  const std::string prefix = VersionPrefix(r_.id(), Version(0));
  for (int i = 0; i < 12000; ++i) {
    Must(store_->PutIfAbsent(fmt::format("{}delta-{:05}-0123456789abcdef.skerry", prefix, i), MemorySource("")));
  }
  const CollectedRun first = CollectRun(1, minutes(0));
  EXPECT_GT(first.count(State::kWaiting), 0);
  EXPECT_GT(first.count(State::kRemoved), 5000);
  CollectRun(1, minutes(0));
  EXPECT_EQ(CollectRun(1, minutes(0)).count(State::kWaiting), 0);
  EXPECT_THAT(Keys(), Not(Contains(HasSubstr("000000000"))));
}

TEST_F(CollectTest, ABoardThatKeepsNothingIsRefused) {
  r_.PublishTo(1);
  EXPECT_THAT(TryCollect(0), Fails(Code::kInvalid));
}

}  // namespace
}  // namespace skerry
