#include "skerry/publish/anchor_schedule.h"

#include <gtest/gtest.h>

namespace skerry {
namespace {

Manifest VersionWith(uint64_t version, std::vector<std::pair<uint64_t, uint64_t>> edges) {
  Manifest manifest{.version = Version(version)};
  for (const auto& [from, bytes] : edges) {
    manifest.edges.push_back({.from = Version(from), .parts = {{.object = {.key = "k", .uri = {}, .size = bytes}}}});
  }
  return manifest;
}

TEST(AnchorSchedule, ATailIsTheCheapestWayThatIsKnown) {
  Tails tails = {{Version(0), 0}};
  for (uint64_t v = 1; v < 8; ++v) AddTail(VersionWith(v, {{v - 1, 10}}), tails);
  EXPECT_EQ(tails.at(Version(7)), 70u);
  AddTail(VersionWith(8, {{7, 10}, {0, 45}}), tails);
  EXPECT_EQ(tails.at(Version(8)), 45u);
  AddTail(VersionWith(9, {{5000, 1}, {8, 10}}), tails);
  EXPECT_EQ(tails.at(Version(9)), 55u) << "an unknown beginning is no way";
}

TEST(AnchorSchedule, ForgetsTailsFromWhichNothingCanBegin) {
  Tails tails = {{Version(0), 0}};
  for (uint64_t v = 1; v <= 200; ++v) AddTail(VersionWith(v, {{v - 1, 1}}), tails);
  EXPECT_EQ(tails.begin()->first, Version(200 - kLongSkip));
  EXPECT_EQ(tails.at(Version(200)), 200u);
}

TEST(AnchorSchedule, IsDueWhereTheWayToTheNextPlaceWouldBeTooLong) {
  const std::vector<AnchorRef> anchors = {{.version = Version(16), .bytes = 1600, .object = {}}};
  const auto due = [&](uint64_t version, uint64_t tail, double share) {
    return AnchorIsDue(Version(version), 2000, anchors, {{Version(version), tail}}, share);
  };
  EXPECT_FALSE(due(24, 49, 1.0 / 16)) << "at 32 it will be about 98 of 100";
  EXPECT_TRUE(due(24, 51, 1.0 / 16));
  EXPECT_FALSE(due(25, 1000, 1.0 / 16)) << "no place for one";
  EXPECT_FALSE(due(16, 1000, 1.0 / 16)) << "there is one";
  EXPECT_FALSE(due(24, 1000, 0)) << "switched off";
  EXPECT_TRUE(AnchorIsDue(Version(24), 2000, anchors, {}, 1.0 / 16)) << "the way is not known";
}

TEST(AnchorSchedule, TakesAnUnpackedAnchorForWhatPackingWouldLeaveOfIt) {
  const std::vector<AnchorRef> base = {{.version = Version(0), .bytes = 2100, .object = {}}};
  EXPECT_FALSE(AnchorIsDue(Version(8), 2000, base, {{Version(8), 42}}, 1.0 / 16)) << "84 of 85";
  EXPECT_TRUE(AnchorIsDue(Version(8), 2000, base, {{Version(8), 43}}, 1.0 / 16)) << "86 of 85";
}

}  // namespace
}  // namespace skerry
