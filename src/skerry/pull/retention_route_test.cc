// gc and the planner must agree on what leads to a version: after any gc, whatever may still be asked for has a route
// whose objects are all there.
#include <algorithm>
#include <random>

#include "skerry/board/collect.h"
#include "skerry/board/run_testing.h"
#include "skerry/pull/route.h"

namespace skerry {
namespace {

using std::chrono::seconds;

class RetentionRoute : public testing::Test {
 protected:
  void ExpectThere(const ObjectRef& object) {
    EXPECT_TRUE(store_->Stat(object.key).has_value()) << object.key << " is gone";
  }
  // Plans from nothing and looks for every object on the way.
  void ExpectRoute(const RunId& run, Version version) {
    const HeadAt at = Must(board_.ReadHead(run));
    const Result<Route> route = PlanRoute(board_, at.head, version, std::nullopt);
    ASSERT_THAT(route, Succeeds()) << "to version " << version << " of run " << run;
    ASSERT_TRUE(route->anchor) << "a reader that has nothing begins at an anchor";
    const AnchorStart& start = *route->anchor;
    const Anchor anchor = Must(board_.ReadAnchor(start.manifest.run, start.anchor));
    for (const PatchPart& part : anchor.parts) ExpectThere(part.object);
    for (const Hop& hop : route->hops) {
      for (const PatchPart& part : hop.edge.parts) ExpectThere(part.object);
      ExpectThere(hop.to.tensor_digests);
    }
  }
  CollectedRun Gc(const RunId& run, uint64_t keep) {
    const CollectOptions options{.policy = {.keep_versions = keep}, .grace = seconds(0)};
    for (CollectedRun& collected : Must(Collect(board_, options, clock_)).runs) {
      if (collected.run == run) return collected;
    }
    throw std::runtime_error("no such run");
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Board board_ = Must(Board::Create(store_));
  TestClock clock_;
};

TEST_F(RetentionRoute, LeadsToWhateverMayStillBeAskedForAfterAnyGc) {
  std::mt19937 random(5);
  const auto below = [&](uint64_t n) { return random() % n; };
  uint64_t removed = 0, routes = 0;
  for (int board = 0; board < 25; ++board) {
    store_ = std::make_shared<MemoryStore>();
    board_ = Must(Board::Create(store_));
    RunOnBoard run(board_, "r"), fork(board_, "f");
    const uint64_t forked_at = 3 + below(20);
    for (uint64_t version = 0; version < 45; ++version) {
      TestStep step{.anchor = below(7) == 0};
      if (version >= 8 && below(2) == 0 && board_.ReadSettledManifest(run.id(), Version(version - 8))) {
        step.skips = {version - 8};
      }
      run.Publish(step);
      if (version == forked_at + 1) fork.ForkOf(run, forked_at);
      if (version > forked_at + 1 && below(4) == 0) fork.Publish({.anchor = below(6) == 0});
      if (below(10) != 0) continue;
      const uint64_t keep = 1 + below(9);
      const uint64_t leased = below(version + 1);
      LeaseHolder lease(board_, run.id(), "slow", clock_);
      const bool was_there = board_.ReadSettledManifest(run.id(), Version(leased)).has_value();
      Must(lease.Hold(Version(leased), Version(leased)));
      const CollectedRun collected = Gc(run.id(), keep);
      ASSERT_EQ(collected.retention.problem, "");
      removed += collected.count(CollectedKey::State::kRemoved);
      if (was_there) ExpectRoute(run.id(), Version(leased));
      for (uint64_t last = version + 1 - std::min(keep, version + 1); last <= version; ++last, ++routes) {
        if (last == version || board_.ReadSettledManifest(run.id(), Version(last)))
          ExpectRoute(run.id(), Version(last));
      }
      if (const Result<HeadAt> head = board_.ReadHead(fork.id())) {
        ExpectRoute(fork.id(), head->head.version);
      }
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(removed, 1000);
  EXPECT_GT(routes, 200);
}

TEST_F(RetentionRoute, AReaderOfARemovedVersionGoesOverAnAnchorAndOneOfAKeptVersionOverPatches) {
  RunOnBoard run(board_, "r");
  run.PublishTo(23, 10);
  Gc(run.id(), 3);
  const HeadAt at = Must(board_.ReadHead(run.id()));
  const auto from = [&](uint64_t version) {
    const Have have{
        .run = run.id(), .version = Version(version), .model = Sha256::Of(fmt::format("model of r {}", version))};
    return Must(PlanRoute(board_, at.head, at.head.version, have));
  };
  EXPECT_TRUE(from(5).anchor);
  EXPECT_FALSE(from(22).anchor);
}

}  // namespace
}  // namespace skerry
