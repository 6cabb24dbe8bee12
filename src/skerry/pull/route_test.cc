#include "skerry/pull/route.h"

#include <rapidcheck/gtest.h>

#include <limits>

#include "skerry/board/board_testing.h"
#include "skerry/board/keys.h"
#include "skerry/board/memory_store.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Bytes alone decide.
constexpr RouteCosts kBytesOnly{.link_bytes_per_second = 1,
                                .apply_bytes_per_second = std::numeric_limits<double>::infinity()};

// A run whose versions have sizes that a test chooses.
class Lineage {
 public:
  explicit Lineage(std::string_view run) : run_(RunNamed(run)) {}

  // The next version; `anchor_bytes` 0: none; `skips`: from which version, with how many bytes.
  void Publish(uint64_t delta_bytes, uint64_t anchor_bytes = 0, std::vector<std::pair<uint64_t, uint64_t>> skips = {}) {
    const Version version(manifests_.size());
    std::optional<Digest> parent;
    if (!version.IsBase()) parent = head_.manifest.sha256;
    Manifest manifest = SampleManifest(run_, version, parent);
    if (!version.IsBase()) manifest.edges[0].parts[0].object.size = delta_bytes;
    for (const auto& [from, bytes] : skips) {
      Edge skip = manifest.edges[0];
      skip.kind = "skip";
      skip.from = Version(from);
      skip.base_model = manifests_[from].model;
      skip.parts[0].object.size = bytes;
      manifest.edges.push_back(skip);
    }
    if (anchor_bytes > 0) {
      AnchorRef anchor = manifest.anchors[0];
      anchor.version = version;
      anchor.bytes = anchor_bytes;
      anchors_.insert(anchors_.begin(), anchor);
    }
    manifest.anchors = anchors_;
    manifest.fork = version.IsBase() ? fork_ : std::nullopt;
    const StagedManifest staged = Must(board_.StageManifest(manifest));
    manifests_.push_back(manifest);
    head_ = SampleHead(staged, manifests_.size());
    Must(board_.MoveHead(SettledNow(board_, run_), head_, staged));
  }
  Result<Route> Plan(uint64_t target, std::optional<uint64_t> have = std::nullopt) {
    std::optional<Have> at;
    if (have) at = Have{run_, Version(*have), manifests_[*have].model};
    return PlanRoute(board_, head_, Version(target), at, kBytesOnly);
  }

  RunId run_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Board board_ = Must(Board::Create(store_));
  std::vector<Manifest> manifests_;
  std::vector<AnchorRef> anchors_;
  std::optional<ForkPoint> fork_;
  Head head_;
};

class RouteTest : public Lineage, public ::testing::Test {
 protected:
  RouteTest() : Lineage("r") {}
};

std::vector<uint64_t> Versions(const Route& route) {
  std::vector<uint64_t> versions;
  for (const Hop& hop : route.hops) versions.push_back(hop.to.version.number());
  return versions;
}

TEST_F(RouteTest, WithoutAnythingItBeginsAtTheAnchorAndFollowsTheDeltas) {
  Publish(0, 1000);
  for (int i = 0; i < 3; ++i) Publish(10);
  const Route route = Must(Plan(3));
  ASSERT_TRUE(route.anchor);
  EXPECT_EQ(route.anchor->anchor.version, Version(0));
  EXPECT_THAT(Versions(route), ElementsAre(1, 2, 3));
  EXPECT_EQ(route.bytes, 1030u);
  EXPECT_EQ(route.target.version, Version(3));
  EXPECT_THAT(Versions(Must(Plan(1))), ElementsAre(1)) << "an older version is a target as well";
  EXPECT_THAT(Versions(Must(Plan(0))), IsEmpty());
}

TEST_F(RouteTest, FromAVersionItFollowsTheDeltasAlone) {
  Publish(0, 1000);
  for (int i = 0; i < 4; ++i) Publish(10);
  const Route route = Must(Plan(4, 2));
  EXPECT_FALSE(route.anchor);
  EXPECT_THAT(Versions(route), ElementsAre(3, 4));
  EXPECT_EQ(route.bytes, 20u);
}

TEST_F(RouteTest, AtTheTargetThereIsNothingToFetch) {
  Publish(0, 1000);
  Publish(10);
  const Route route = Must(Plan(1, 1));
  EXPECT_FALSE(route.anchor);
  EXPECT_THAT(Versions(route), IsEmpty());
  EXPECT_EQ(route.bytes, 0u);
}

TEST_F(RouteTest, ANewerAnchorIsTakenWhereItIsCheaper) {
  Publish(0, 1000);
  for (int i = 0; i < 3; ++i) Publish(400);
  Publish(400, 1000);
  Publish(400);
  EXPECT_EQ(Must(Plan(5)).anchor->anchor.version, Version(4)) << "G5: the newest anchor at or before the target";
  EXPECT_EQ(Must(Plan(5)).bytes, 1400u);
  EXPECT_EQ(Must(Plan(5, 0)).anchor->anchor.version, Version(4)) << "1400 bytes against 5 deltas of 400";
  const Route from_two = Must(Plan(5, 2));
  EXPECT_FALSE(from_two.anchor) << "3 deltas of 400 are fewer than 1400";
  EXPECT_THAT(Versions(from_two), ElementsAre(3, 4, 5));
  EXPECT_THAT(Versions(Must(Plan(4))), IsEmpty());
  EXPECT_THAT(Versions(Must(Plan(3))), ElementsAre(1, 2, 3)) << "the anchor is after the target";
}

TEST_F(RouteTest, AVersionAfterTheTargetDoesNotHelp) {
  Publish(0, 1000);
  Publish(10);
  Publish(10);
  const Route route = Must(Plan(1, 2));
  ASSERT_TRUE(route.anchor);
  EXPECT_THAT(Versions(route), ElementsAre(1));
}

TEST_F(RouteTest, AnotherModelUnderTheSameNumberIsAMismatch) {
  Publish(0, 1000);
  Publish(10);
  EXPECT_THAT(
      PlanRoute(board_, head_, Version(1), Have{run_, Version(1), Sha256::Of("other")}),
      Fails(Code::kMismatch, AllOf(HasSubstr(Sha256::Of("other").Short()), HasSubstr(manifests_[1].model.Short()))));
}

TEST_F(RouteTest, AVersionAfterTheHeadIsRefused) {
  Publish(0, 1000);
  EXPECT_FALSE(Plan(1));
}

TEST_F(RouteTest, TakesSkipsWhereTheyAreCheaper) {
  Publish(0, 1000);
  for (int i = 1; i < 8; ++i) Publish(10);
  Publish(10, 0, {{0, 45}});
  Publish(10);
  EXPECT_THAT(Versions(Must(Plan(9, 0))), ElementsAre(8, 9));
  EXPECT_EQ(Must(Plan(9, 0)).bytes, 55u);
  EXPECT_THAT(Versions(Must(Plan(9, 5))), ElementsAre(6, 7, 8, 9)) << "the skip begins too early";
  EXPECT_EQ(Must(Plan(9, 0)).hops[0].edge.kind, "skip");
}

TEST_F(RouteTest, AnEdgeOfAnUnknownKindIsPassedOver) {
  Publish(0, 1000);
  Publish(10);
  Publish(10, 0, {{0, 1}});
  manifests_[2].edges[1].kind = "sideways";
  manifests_[2].time = "other bytes";
  const StagedManifest staged = Must(board_.StageManifest(manifests_[2]));
  head_.manifest = staged.ref();
  EXPECT_THAT(Versions(Must(Plan(2, 0))), ElementsAre(1, 2));
}

TEST_F(RouteTest, GoesAroundVersionsThatRetentionRemoved) {
  Publish(0, 1000);
  for (int i = 1; i < 4; ++i) Publish(10);
  Publish(10, 5000, {{0, 30}});
  Publish(10);
  EXPECT_THAT(Versions(Must(Plan(5, 0))), ElementsAre(4, 5));
  for (const uint64_t version : {2, 3}) {
    Must(store_->Delete(ManifestKey(run_, Version(version))));
    Must(store_->Delete(
        StagedManifestKey(run_, Version(version), Sha256::Of(Must(SerializeManifest(manifests_[version]))))));
  }
  EXPECT_THAT(Versions(Must(Plan(5, 1))), ElementsAre(4, 5))
      << "its own way forward is gone, so: anchor 0, skip, delta";
  EXPECT_EQ(Must(Plan(5, 1)).anchor->anchor.version, Version(0));
}

TEST_F(RouteTest, RefusesASkipThatIsFromAnotherModel) {
  Publish(0, 1000);
  Publish(10);
  Publish(10, 0, {{0, 1}});
  manifests_[2].edges[1].base_model = Sha256::Of("of another run");
  const StagedManifest staged = Must(board_.StageManifest(manifests_[2]));
  head_.manifest = staged.ref();
  EXPECT_THAT(Plan(2), Fails(Code::kMismatch, HasSubstr("version 0")));
}

TEST_F(RouteTest, CrossesAForkWithoutAnyBytes) {
  Publish(0, 1000);
  for (int i = 1; i < 4; ++i) Publish(10);
  Lineage fork("fork");
  fork.store_ = store_;
  fork.board_ = board_;
  fork.fork_ =
      ForkPoint{.run = run_, .version = Version(2), .manifest = Sha256::Of(Must(SerializeManifest(manifests_[2])))};
  fork.Publish(0);
  fork.Publish(7);
  const Route fresh = Must(fork.Plan(1));
  EXPECT_EQ(fresh.anchor->manifest.run, run_);
  EXPECT_THAT(Versions(fresh), ElementsAre(1, 2, 1));
  EXPECT_EQ(fresh.bytes, 1027u);
  const auto from_parent = [&](uint64_t version) {
    return Must(
        PlanRoute(board_, fork.head_, Version(1), Have{run_, Version(version), manifests_[version].model}, kBytesOnly));
  };
  EXPECT_THAT(Versions(from_parent(2)), ElementsAre(1)) << "the fork's version 0 is that version";
  EXPECT_THAT(Versions(from_parent(1)), ElementsAre(2, 1));
  EXPECT_TRUE(from_parent(3).anchor) << "version 3 came after the fork";
}

// The cheapest way from what is here or any anchor of the target to the target, by trying all edges often enough.
uint64_t BruteForce(const std::vector<Manifest>& manifests, uint64_t target, std::optional<uint64_t> have) {
  constexpr uint64_t kNever = UINT64_MAX / 2;
  std::vector<uint64_t> cost(manifests.size(), kNever);
  for (const AnchorRef& anchor : manifests[target].anchors) cost[anchor.version.number()] = anchor.bytes;
  if (have) cost[*have] = 0;
  for (size_t round = 0; round < manifests.size(); ++round) {
    for (size_t v = 1; v <= target; ++v) {
      for (const Edge& edge : manifests[v].edges) {
        cost[v] = std::min(cost[v], cost[edge.from.number()] + edge.bytes());
      }
    }
  }
  return cost[target];
}

RC_GTEST_PROP(RouteProperty, IsAsCheapAsTheBestOfAllWays, ()) {
  Lineage run("r");
  run.Publish(0, *rc::gen::inRange<uint64_t>(1, 3000));
  const auto versions = *rc::gen::inRange<uint64_t>(1, 40);
  for (uint64_t v = 1; v <= versions; ++v) {
    std::vector<std::pair<uint64_t, uint64_t>> skips;
    for (const uint64_t over : {8, 16}) {
      if (v % over == 0) skips.emplace_back(v - over, *rc::gen::inRange<uint64_t>(1, 100 * over));
    }
    const bool anchor = *rc::gen::inRange(0, 8) == 0;
    run.Publish(*rc::gen::inRange<uint64_t>(1, 200), anchor ? *rc::gen::inRange<uint64_t>(1, 3000) : 0, skips);
  }
  const auto target = *rc::gen::inRange<uint64_t>(0, versions + 1);
  std::optional<uint64_t> have;
  if (*rc::gen::arbitrary<bool>()) have = *rc::gen::inRange<uint64_t>(0, versions + 1);
  const Route route = Must(run.Plan(target, have));
  RC_ASSERT(route.bytes == BruteForce(run.manifests_, target, have));
  uint64_t bytes = route.anchor ? route.anchor->anchor.bytes : 0;
  uint64_t at = route.anchor ? route.anchor->anchor.version.number() : *have;
  for (const Hop& hop : route.hops) {
    RC_ASSERT(hop.edge.from.number() == at);
    at = hop.to.version.number();
    bytes += hop.edge.bytes();
  }
  RC_ASSERT(at == target);
  RC_ASSERT(bytes == route.bytes);
}

}  // namespace
}  // namespace skerry
