#include "skerry/gateway/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr Fleet::Time kNow{seconds(1'000)};

IslandReport ReportAt(const std::string& url, uint64_t version, uint64_t capacity = 10) {
  IslandReport report{.url = url, .name = url, .instance = "1", .run = "r"};
  report.version = Version(version);
  report.ready = true;
  report.capacity = capacity;
  return report;
}

std::string UrlOf(int number) { return "http://10.0.0." + std::to_string(number) + ":8089"; }

Fleet FleetOf(const std::vector<uint64_t>& versions, FleetOptions options = {.run = "r"}) {
  Fleet fleet(std::move(options));
  for (size_t i = 0; i < versions.size(); ++i) {
    Must(fleet.Report(ReportAt(UrlOf(static_cast<int>(i)), versions[i]), kNow));
  }
  return fleet;
}

// The chosen island's number, or -1.
int Chosen(const Fleet& fleet, const IslandWish& wish, Fleet::Time now = kNow) {
  const auto choice = fleet.Choose(wish, now);
  if (std::holds_alternative<Admission::Refused>(choice)) return -1;
  const std::string& url = std::get<std::shared_ptr<Island>>(choice)->url;
  return std::stoi(url.substr(url.rfind('.') + 1));
}

Admission::Refused RefusalOf(const Fleet& fleet, const IslandWish& wish, Fleet::Time now = kNow) {
  return std::get<Admission::Refused>(fleet.Choose(wish, now));
}

IslandWish AtLeast(uint64_t version) { return {.constraint = {.min = Version(version), .exact = {}, .wait = {}}}; }
IslandWish Exactly(uint64_t version) { return {.constraint = {.min = {}, .exact = Version(version), .wait = {}}}; }

IslandState StateOf(const Fleet& fleet, int number, Fleet::Time now = kNow) {
  return fleet.StateOf(*fleet.islands().at(UrlOf(number)), now);
}

TEST(Fleet, ChoosesOnlyIslandsThatServeWhatIsAskedFor) {
  const Fleet fleet = FleetOf({5, 6, 7});
  EXPECT_EQ(Chosen(fleet, AtLeast(7)), 2);
  EXPECT_EQ(Chosen(fleet, Exactly(5)), 0);
  EXPECT_EQ(Chosen(fleet, AtLeast(8)), -1);
  EXPECT_EQ(Chosen(fleet, Exactly(4)), -1);
}

TEST(Fleet, SaysWhatIsMissingAndWhetherItMayStillCome) {
  const Fleet fleet = FleetOf({5, 7});
  EXPECT_TRUE(RefusalOf(fleet, AtLeast(8)).not_ready);
  EXPECT_TRUE(RefusalOf(fleet, AtLeast(8)).worth_waiting);
  EXPECT_EQ(RefusalOf(fleet, AtLeast(8)).applied->version, Version(7));
  EXPECT_TRUE(RefusalOf(fleet, Exactly(6)).worth_waiting);  // the first island may come to it
  EXPECT_TRUE(RefusalOf(fleet, Exactly(4)).not_ready);
  EXPECT_FALSE(RefusalOf(fleet, Exactly(4)).worth_waiting);
}

TEST(Fleet, WithoutIslandsIsNoMatterOfVersionsUnlessTheLastKnownOneWouldNotDo) {
  Fleet fleet = FleetOf({5});
  fleet.Leave(UrlOf(0));
  EXPECT_FALSE(RefusalOf(fleet, {}).not_ready);
  EXPECT_FALSE(RefusalOf(fleet, AtLeast(5)).not_ready);
  EXPECT_TRUE(RefusalOf(fleet, AtLeast(6)).not_ready);
  EXPECT_TRUE(RefusalOf(FleetOf({}), AtLeast(6)).not_ready);
}

TEST(Fleet, GivesRequestsToTheLeastLoadedIslandByItsCapacity) {
  Fleet fleet({.run = "r"});
  Must(fleet.Report(ReportAt(UrlOf(0), 1, 10), kNow));
  Must(fleet.Report(ReportAt(UrlOf(1), 1, 30), kNow));
  std::map<int, int> count;
  for (int i = 0; i < 40; ++i) {
    const int chosen = Chosen(fleet, {.ticket = static_cast<uint64_t>(i)});
    ++count[chosen];
    ++fleet.islands().at(UrlOf(chosen))->running;
  }
  EXPECT_EQ(count, (std::map<int, int>{{0, 10}, {1, 30}}));
}

TEST(Fleet, CountsWhatOthersSendToAnIsland) {
  Fleet fleet = FleetOf({1, 1});
  fleet.islands().at(UrlOf(0))->running = 2;
  IslandReport busy = ReportAt(UrlOf(0), 1);
  busy.running = 7;
  Must(fleet.Report(busy, kNow));
  EXPECT_EQ(fleet.islands().at(UrlOf(0))->others, 5u);
  EXPECT_DOUBLE_EQ(fleet.islands().at(UrlOf(0))->Load(), 0.7);
  EXPECT_EQ(Chosen(fleet, {}), 1);
}

TEST(Fleet, PrefersItsRegionUntilThatIsFull) {
  Fleet fleet({.run = "r", .region = "eu"});
  for (const auto& [number, region] : std::map<int, std::string>{{0, "eu"}, {1, "us"}}) {
    IslandReport report = ReportAt(UrlOf(number), 1, 2);
    report.region = region;
    Must(fleet.Report(report, kNow));
  }
  EXPECT_EQ(Chosen(fleet, {}), 0);
  EXPECT_EQ(Chosen(fleet, {.region = "us"}), 1);
  fleet.islands().at(UrlOf(0))->running = 1;
  EXPECT_EQ(Chosen(fleet, {}), 0);
  fleet.islands().at(UrlOf(0))->running = 2;
  EXPECT_EQ(Chosen(fleet, {}), 1);
  fleet.islands().at(UrlOf(1))->running = 2;
  EXPECT_EQ(Chosen(fleet, {}), 0);
}

TEST(Fleet, LeavesOutWhoIsSilentOutDrainingForeignOrTried) {
  Fleet fleet = FleetOf({1, 1, 1, 1});
  IslandReport out = ReportAt(UrlOf(0), 1);
  out.ready = false;
  IslandReport draining = ReportAt(UrlOf(1), 1);
  draining.draining = true;
  IslandReport foreign = ReportAt(UrlOf(2), 1);
  foreign.run = "other";
  for (const IslandReport& report : {out, draining, foreign}) Must(fleet.Report(report, kNow));
  EXPECT_EQ(StateOf(fleet, 0), IslandState::kOut);
  EXPECT_EQ(StateOf(fleet, 1), IslandState::kDraining);
  EXPECT_EQ(StateOf(fleet, 2), IslandState::kForeign);
  EXPECT_EQ(Chosen(fleet, {}), 3);
  const std::vector<const Island*> tried = {fleet.islands().at(UrlOf(3)).get()};
  EXPECT_EQ(Chosen(fleet, {.tried = &tried}), -1);
  EXPECT_EQ(StateOf(fleet, 3, kNow + seconds(6)), IslandState::kSilent);
  EXPECT_EQ(Chosen(fleet, {}, kNow + seconds(6)), -1);
}

TEST(Fleet, ServesARunsViewsAsTheRun) {
  Fleet fleet({.run = "r"});
  IslandReport report = ReportAt(UrlOf(0), 1);
  report.run = "r/fp8-block";
  Must(fleet.Report(report, kNow));
  EXPECT_EQ(Chosen(fleet, Exactly(1)), 0);
}

TEST(Fleet, ForgetsWhoIsSilentForLongUnlessItIsListed) {
  Fleet fleet = FleetOf({1, 1});
  fleet.List({UrlOf(1)}, kNow);
  EXPECT_TRUE(fleet.Forget(kNow + seconds(30)).empty());
  EXPECT_EQ(fleet.Forget(kNow + seconds(31)).size(), 2u);
  ASSERT_EQ(fleet.islands().size(), 1u);
  EXPECT_EQ(fleet.islands().begin()->first, UrlOf(1));
}

TEST(Fleet, UsesAFailingIslandOnlyWhereThereIsNoOther) {
  Fleet fleet = FleetOf({1, 1});
  Island& first = *fleet.islands().at(UrlOf(0));
  fleet.Failed(first, "refused", kNow);
  EXPECT_EQ(StateOf(fleet, 0), IslandState::kFailing);
  EXPECT_EQ(Chosen(fleet, {}), 1);
  fleet.Leave(UrlOf(1));
  EXPECT_EQ(Chosen(fleet, {}), 0);
  EXPECT_EQ(StateOf(fleet, 0, kNow + Fleet::kFirstPause), IslandState::kIn);
  fleet.Failed(first, "refused", kNow);
  EXPECT_EQ(StateOf(fleet, 0, kNow + Fleet::kFirstPause), IslandState::kFailing);
  fleet.Answered(first);
  EXPECT_EQ(StateOf(fleet, 0), IslandState::kIn);
  for (int i = 0; i < 100; ++i) fleet.Failed(first, "refused", kNow);
  EXPECT_EQ(StateOf(fleet, 0, kNow + Fleet::kLongestPause - milliseconds(1)), IslandState::kSilent);
  Must(fleet.Report(ReportAt(UrlOf(0), 1), kNow + Fleet::kLongestPause));
  EXPECT_EQ(StateOf(fleet, 0, kNow + Fleet::kLongestPause), IslandState::kIn);
}

TEST(Fleet, GivesALiarNothingUntilItsAgentIsAnotherOne) {
  Fleet fleet = FleetOf({1});
  Island& liar = *fleet.islands().at(UrlOf(0));
  fleet.Lied(liar, "it serves another run", kNow);
  EXPECT_EQ(Chosen(fleet, {}), -1);
  fleet.Answered(liar);
  Must(fleet.Report(ReportAt(UrlOf(0), 1), kNow));
  EXPECT_EQ(Chosen(fleet, {}), -1);
  IslandReport restarted = ReportAt(UrlOf(0), 1);
  restarted.instance = "2";
  Must(fleet.Report(restarted, kNow));
  EXPECT_EQ(Chosen(fleet, {}), 0);
}

TEST(Fleet, TakesNoMoreIslandsThanItMay) {
  Fleet fleet = FleetOf({1, 1}, {.run = "r", .most = 2});
  const auto refused = fleet.Report(ReportAt(UrlOf(2), 1), kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_THAT(refused.error().message, HasSubstr(UrlOf(2)));
  EXPECT_TRUE(fleet.Report(ReportAt(UrlOf(1), 2), kNow));
}

TEST(Fleet, TellsWhetherAReportChangesAnything) {
  Fleet fleet = FleetOf({1});
  IslandReport busier = ReportAt(UrlOf(0), 1);
  busier.running = 9;
  EXPECT_FALSE(Must(fleet.Report(busier, kNow)));
  EXPECT_TRUE(Must(fleet.Report(ReportAt(UrlOf(0), 2), kNow)));
  EXPECT_TRUE(Must(fleet.Report(ReportAt(UrlOf(0), 2), kNow + seconds(60))));  // it was silent
}

RC_GTEST_PROP(Sessions, MoveOnlyWhereTheirIslandGoes, ()) {
  const int islands = *rc::gen::inRange(2, 12);
  std::vector<uint64_t> versions(static_cast<size_t>(islands), 1);
  Fleet fleet = FleetOf(versions), other = FleetOf(versions);
  const int gone = *rc::gen::inRange(0, islands);
  std::map<uint64_t, int> before;
  for (const uint64_t session : *rc::gen::container<std::vector<uint64_t>>(50, rc::gen::arbitrary<uint64_t>())) {
    before[session] = Chosen(fleet, {.session = StableHash(std::to_string(session))});
  }
  fleet.Leave(UrlOf(gone));
  for (const auto& [session, island] : before) {
    const IslandWish wish{.session = StableHash(std::to_string(session))};
    RC_ASSERT(Chosen(other, wish) == island);  // another gateway
    if (island != gone) RC_ASSERT(Chosen(fleet, wish) == island);
    if (island == gone) RC_ASSERT(Chosen(fleet, wish) != gone);
  }
}

TEST(Sessions, AreSpreadByCapacity) {
  Fleet fleet({.run = "r"});
  Must(fleet.Report(ReportAt(UrlOf(0), 1, 10), kNow));
  Must(fleet.Report(ReportAt(UrlOf(1), 1, 30), kNow));
  int first = 0;
  for (int i = 0; i < 4000; ++i) {
    if (Chosen(fleet, {.session = StableHash(std::to_string(i))}) == 0) ++first;
  }
  EXPECT_NEAR(first, 1000, 120);  // four standard deviations
}

RC_GTEST_PROP(Choices, MeetTheirConstraintAndAreNotOfThoseThatWereTried, ()) {
  const auto versions = *rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(0, 6));
  const Fleet fleet =
      FleetOf(std::vector<uint64_t>(versions.begin(), versions.begin() + std::min<long>(versions.size(), 20)));
  IslandWish wish = *rc::gen::arbitrary<bool>() ? AtLeast(*rc::gen::inRange(0, 6)) : Exactly(*rc::gen::inRange(0, 6));
  if (*rc::gen::arbitrary<bool>()) wish.session = *rc::gen::arbitrary<uint64_t>();
  std::vector<const Island*> tried;
  wish.tried = &tried;
  std::set<int> seen;
  for (int chosen; (chosen = Chosen(fleet, wish)) >= 0;) {
    const Island* island = fleet.islands().at(UrlOf(chosen)).get();
    RC_ASSERT(wish.constraint.MetBy(*island->report.version));
    RC_ASSERT(seen.insert(chosen).second);
    tried.push_back(island);
  }
  for (const auto& [url, island] : fleet.islands()) {
    RC_ASSERT(wish.constraint.MetBy(*island->report.version) ==
              (std::find(tried.begin(), tried.end(), island.get()) != tried.end()));
  }
}

}  // namespace
}  // namespace skerry
