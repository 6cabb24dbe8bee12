#include "skerry/pull/route.h"

#include "skerry/board/board_testing.h"
#include "skerry/board/memory_store.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A run whose versions have sizes that a test chooses.
class RouteTest : public ::testing::Test {
 protected:
  // The next version; `anchor_bytes` 0: none.
  void Publish(uint64_t delta_bytes, uint64_t anchor_bytes = 0) {
    const Version version(manifests_.size());
    std::optional<Digest> parent;
    if (!version.IsBase()) parent = head_.manifest.sha256;
    Manifest manifest = SampleManifest(run_, version, parent);
    if (!version.IsBase()) manifest.edges[0].objects[0].size = delta_bytes;
    if (anchor_bytes > 0) {
      nearest_anchor_ = version;
      manifest.anchor = Anchor{
          .files = {{.path = "model.safetensors",
                     .object = {.key = AnchorKey(run_, version, Sha256::Of("weights"), "model.safetensors").value(),
                                .uri = {},
                                .size = anchor_bytes,
                                .sha256 = Sha256::Of("weights")}}}};
    }
    manifest.nearest_anchor = nearest_anchor_;
    manifests_.push_back(manifest);
    head_ = SampleHead(manifest, Must(board_.StageManifest(manifest)), manifests_.size());
    generation_ = Must(board_.MoveHead(generation_, head_));
    Must(board_.PublishAlias(head_));
  }
  Result<Route> Plan(uint64_t target, std::optional<uint64_t> have = std::nullopt) {
    std::optional<Have> at;
    if (have) at = Have{Version(*have), manifests_[*have].model};
    return PlanRoute(board_, head_, Version(target), at);
  }
  static std::vector<uint64_t> Deltas(const Route& route) {
    std::vector<uint64_t> versions;
    for (const Manifest& manifest : route.deltas) versions.push_back(manifest.version.number());
    return versions;
  }

  const RunId run_ = RunNamed("r");
  Board board_ = Must(Board::Create(std::make_shared<MemoryStore>()));
  std::vector<Manifest> manifests_;
  Version nearest_anchor_;
  Head head_;
  std::optional<Generation> generation_;
};

TEST_F(RouteTest, WithoutAnythingItBeginsAtTheAnchorAndFollowsTheDeltas) {
  Publish(0, 1000);
  for (int i = 0; i < 3; ++i) Publish(10);
  const Route route = Must(Plan(3));
  ASSERT_TRUE(route.anchor);
  EXPECT_EQ(route.anchor->version, Version(0));
  EXPECT_THAT(Deltas(route), ElementsAre(1, 2, 3));
  EXPECT_EQ(route.bytes, 1030u);
  EXPECT_EQ(route.target.version, Version(3));
  EXPECT_THAT(Deltas(Must(Plan(1))), ElementsAre(1)) << "an older version is a target as well";
  EXPECT_THAT(Deltas(Must(Plan(0))), IsEmpty());
}

TEST_F(RouteTest, FromAVersionItFollowsTheDeltasAlone) {
  Publish(0, 1000);
  for (int i = 0; i < 4; ++i) Publish(10);
  const Route route = Must(Plan(4, 2));
  EXPECT_FALSE(route.anchor);
  EXPECT_THAT(Deltas(route), ElementsAre(3, 4));
  EXPECT_EQ(route.bytes, 20u);
}

TEST_F(RouteTest, AtTheTargetThereIsNothingToFetch) {
  Publish(0, 1000);
  Publish(10);
  const Route route = Must(Plan(1, 1));
  EXPECT_FALSE(route.anchor);
  EXPECT_THAT(Deltas(route), IsEmpty());
  EXPECT_EQ(route.bytes, 0u);
}

TEST_F(RouteTest, ANewerAnchorIsTakenWhereItIsCheaper) {
  Publish(0, 1000);
  for (int i = 0; i < 3; ++i) Publish(400);
  Publish(400, 1000);
  Publish(400);
  EXPECT_EQ(Must(Plan(5)).anchor->version, Version(4)) << "G5: the newest anchor at or before the target";
  EXPECT_EQ(Must(Plan(5)).bytes, 1400u);
  EXPECT_EQ(Must(Plan(5, 0)).anchor->version, Version(4)) << "1400 bytes against 5 deltas of 400";
  const Route from_two = Must(Plan(5, 2));
  EXPECT_FALSE(from_two.anchor) << "3 deltas of 400 are fewer than 1400";
  EXPECT_THAT(Deltas(from_two), ElementsAre(3, 4, 5));
  EXPECT_THAT(Deltas(Must(Plan(4))), IsEmpty());
  EXPECT_THAT(Deltas(Must(Plan(3))), ElementsAre(1, 2, 3)) << "the anchor is after the target";
}

TEST_F(RouteTest, AVersionAfterTheTargetDoesNotHelp) {
  Publish(0, 1000);
  Publish(10);
  Publish(10);
  const Route route = Must(Plan(1, 2));
  ASSERT_TRUE(route.anchor);
  EXPECT_THAT(Deltas(route), ElementsAre(1));
}

TEST_F(RouteTest, AnotherModelUnderTheSameNumberIsAMismatch) {
  Publish(0, 1000);
  Publish(10);
  EXPECT_THAT(
      PlanRoute(board_, head_, Version(1), Have{Version(1), Sha256::Of("other")}),
      Fails(Code::kMismatch, AllOf(HasSubstr(Sha256::Of("other").Short()), HasSubstr(manifests_[1].model.Short()))));
}

TEST_F(RouteTest, AVersionAfterTheHeadIsRefused) {
  Publish(0, 1000);
  EXPECT_FALSE(Plan(1));
}

TEST_F(RouteTest, OnlyADeltaFromTheVersionBeforeCounts) {
  Publish(0, 1000);
  Publish(10);
  Manifest manifest = manifests_[1];
  EXPECT_EQ(Must(DeltaEdge(manifest)).objects.size(), 1u);
  manifest.edges[0].kind = "skip";
  EXPECT_THAT(DeltaEdge(manifest), Fails(Code::kUnsupported, HasSubstr("version 1")));
  EXPECT_THAT(DeltaEdge(manifests_[0]), Fails(Code::kUnsupported));
}

}  // namespace
}  // namespace skerry
