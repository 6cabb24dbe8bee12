#include "skerry/agent/island.h"

#include <filesystem>
#include <future>

#include "skerry/engine/fake_engine.h"
#include "skerry/engine/updates_testing.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Some fake engines that booted with the model's first version, and an island of them.
class IslandOf {
 public:
  explicit IslandOf(int engines, IslandOptions options = {}) : options_(options) {
    for (int i = 0; i < engines; ++i) {
      servers.push_back(std::make_unique<FakeServer>(model.boot(), fmt::format("engine-{}", i)));
      servers.back()->TakeChanges(true);
    }
    Restart();
  }

  // As after the death of the agent: nothing but the records is left.
  void Restart() {
    std::vector<std::unique_ptr<Engine>> engines;
    for (auto& server : servers) engines.push_back(std::make_unique<FakeEngine>(*server));
    island.emplace(std::move(engines), options_, records.path());
  }

  // The next version: what the agent does in a pass.
  Result<SwitchReceipt> Move() {
    update = model.StepWithChanges();
    return Again();
  }
  Result<SwitchReceipt> Again() {
    island->Look();
    const Checkpoint checkpoint = Must(Checkpoint::Open(update.checkpoint));
    return island->Switch(update, checkpoint, [&](const std::string& from) -> Result<std::optional<ChangedElements>> {
      asked.push_back(from);
      if (update.changes && update.changes->from == from) return update.changes;
      return std::optional<ChangedElements>();
    });
  }
  bool Serves(int engine) const { return servers[engine]->ServedModel() == update.model.Hex(); }
  EngineView View(int engine) const { return island->Views()[engine]; }

  MovingModel model;
  TempDir records;
  std::vector<std::unique_ptr<FakeServer>> servers;
  std::optional<Island> island;
  WeightUpdate update;
  std::vector<std::string> asked;  // labels whose changes were asked for

 private:
  IslandOptions options_;
};

TEST(Island, GivesAnEngineThatNobodyVouchesForTheWholeModel) {
  IslandOf one(1);
  one.island->Look();
  EXPECT_FALSE(one.View(0).in_rotation);
  const SwitchReceipt receipt = Must(one.Move());
  EXPECT_EQ(receipt.engines, 1u);
  EXPECT_EQ(receipt.by_changes, 0u);
  EXPECT_TRUE(one.Serves(0));
  EXPECT_TRUE(one.View(0).in_rotation);
  EXPECT_EQ(one.island->ServedLabel(), one.update.label);
}

TEST(Island, GivesAnEngineThatServesOnlyWhatChanged) {
  IslandOf one(1);
  Must(one.Move());
  const std::string before = one.update.label;
  EXPECT_EQ(Must(one.Move()).by_changes, 1u);
  EXPECT_TRUE(one.Serves(0));
  EXPECT_EQ(one.asked.back(), before);
}

TEST(Island, MakesAllSlowCallsOutsideThePauseAndResumesAfterTheLastIsVerified) {
  IslandOf two(2);
  Must(two.Move());
  for (auto& server : two.servers) server->ClearTrace();
  Must(two.Move());
  for (auto& server : two.servers) {
    EXPECT_EQ(server->TraceText(), "probe prepare pause load reset_cache verify resume");
  }
  const auto last = [&](EngineCall call) {
    auto at = std::chrono::steady_clock::time_point::min();
    for (auto& server : two.servers) {
      for (const auto& entry : server->trace()) {
        if (entry.call == call) at = std::max(at, entry.end);
      }
    }
    return at;
  };
  for (auto& server : two.servers) {
    for (const auto& entry : server->trace()) {
      if (entry.call == EngineCall::kPause) {
        EXPECT_GE(entry.begin, last(EngineCall::kPrepare));
      } else if (entry.call == EngineCall::kResume) {
        EXPECT_GE(entry.begin, last(EngineCall::kVerify));
      }
    }
  }
}

TEST(Island, DoesNothingToAnEngineThatServesTheUpdate) {
  IslandOf one(1);
  Must(one.Move());
  one.servers[0]->ClearTrace();
  EXPECT_EQ(Must(one.Again()).engines, 0u);
  EXPECT_FALSE(one.island->NeedsSwitch(one.update.label));
  EXPECT_EQ(one.servers[0]->TraceText(), "probe");
}

TEST(Island, H4_LeavesTheEngineThatFailedOutAndSaysWhichServesWhat) {
  IslandOf three(3);
  Must(three.Move());
  three.servers[1]->Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kFails});
  three.servers[2]->Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kHangs});
  EXPECT_EQ(Must(three.Move()).engines, 1u);
  EXPECT_TRUE(three.View(0).in_rotation);
  for (const int out : {1, 2}) {
    EXPECT_FALSE(three.View(out).in_rotation) << out;
    EXPECT_THAT(three.View(out).label, IsEmpty());
    EXPECT_THAT(three.View(out).problem, HasSubstr("load"));
    EXPECT_TRUE(three.servers[out]->paused()) << "an uncertain engine must not serve";
  }
  EXPECT_EQ(three.island->ServedLabel(), three.update.label);
}

// Whatever call fails, and whether or not it took its effect: never in rotation on other weights, and the next pass
// brings the whole model.
TEST(Island, BringsAnEngineBackByTheWholeModelAfterAnyFailedCall) {
  using enum EngineCall;
  for (const EngineCall call : {kPause, kLoad, kResetCache, kVerify, kResume}) {
    for (const FakeFault fault :
         {FakeFault{.kind = FakeFault::Kind::kFails}, FakeFault{.kind = FakeFault::Kind::kHangs},
          FakeFault{.kind = FakeFault::Kind::kFails, .works = true},
          FakeFault{.kind = FakeFault::Kind::kHangs, .works = true}}) {
      SCOPED_TRACE(EngineCallName(call));
      IslandOf one(1);
      Must(one.Move());
      one.servers[0]->Script(call, fault);
      EXPECT_THAT(one.Move(), ::testing::Not(Succeeds()));
      EXPECT_FALSE(one.View(0).in_rotation);
      EXPECT_EQ(one.island->ServedLabel(), std::nullopt);
      const SwitchReceipt receipt = Must(one.Again());
      EXPECT_EQ(receipt.by_changes, 0u);
      EXPECT_TRUE(one.Serves(0));
      EXPECT_TRUE(one.View(0).in_rotation);
      EXPECT_FALSE(one.servers[0]->paused());
    }
  }
}

TEST(Island, NoticesAStaleOrPartialLoad) {
  for (const auto kind : {FakeFault::Kind::kPartly, FakeFault::Kind::kStale}) {
    IslandOf one(1);
    Must(one.Move());
    one.servers[0]->Script(EngineCall::kLoad, {.kind = kind});
    EXPECT_THAT(one.Move(), ::testing::Not(Succeeds()));
    EXPECT_FALSE(one.View(0).in_rotation);
    Must(one.Again());
    EXPECT_TRUE(one.Serves(0));
  }
}

TEST(Island, KeepsServingTheOldVersionWhenAPreparationFails) {
  IslandOf one(1);
  Must(one.Move());
  const std::string before = one.update.label;
  one.servers[0]->Script(EngineCall::kPrepare, {.kind = FakeFault::Kind::kFails, .times = 2});
  EXPECT_THAT(one.Move(), ::testing::Not(Succeeds()));
  one.island->Look();
  EXPECT_TRUE(one.View(0).in_rotation);
  EXPECT_EQ(one.View(0).label, before);
}

TEST(Island, NoticesARestartedEngineAndBringsItBack) {
  IslandOf two(2);
  Must(two.Move());
  Must(two.servers[0]->Restart());
  two.island->Look();
  EXPECT_FALSE(two.View(0).in_rotation);
  EXPECT_THAT(two.View(0).problem, HasSubstr("restarted"));
  EXPECT_TRUE(two.View(1).in_rotation);
  two.servers[1]->ClearTrace();
  EXPECT_EQ(Must(two.Again()).engines, 1u);
  EXPECT_TRUE(two.Serves(0));
  EXPECT_EQ(two.servers[1]->TraceText(), "probe") << "the healthy one is left alone";
}

TEST(Island, H7_GivesAnEngineThatSleptTheWholeModelWhenItWakes) {
  IslandOf one(1);
  Must(one.Move());
  one.servers[0]->Sleep();
  one.island->Look();
  EXPECT_FALSE(one.View(0).in_rotation);
  EXPECT_TRUE(one.View(0).asleep);
  EXPECT_EQ(Must(one.Move()).engines, 0u) << "it takes no weight call";
  Must(one.servers[0]->Wake(/*weights_kept=*/false));
  EXPECT_EQ(Must(one.Again()).by_changes, 0u);
  EXPECT_TRUE(one.Serves(0));
}

TEST(Island, H12_TakesADeadEngineBackOnlyWithTheWholeModel) {
  IslandOf one(1);
  Must(one.Move());
  one.servers[0]->Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kDies});
  EXPECT_THAT(one.Move(), Fails(Code::kUnavailable, AllOf(HasSubstr("no engine took"), HasSubstr("engine-0"))));
  EXPECT_EQ(Must(one.Again()).engines, 0u) << "it is gone";
  Must(one.servers[0]->Restart());
  EXPECT_EQ(Must(one.Again()).by_changes, 0u);
  EXPECT_TRUE(one.Serves(0));
}

TEST(Island, TrustsItsRecordsAfterARestartOfTheAgent) {
  IslandOf one(1);
  Must(one.Move());
  one.Restart();
  one.island->Look();
  EXPECT_TRUE(one.View(0).in_rotation);
  EXPECT_EQ(Must(one.Move()).by_changes, 1u);
}

// The agent dies at each point of a switch: the one that comes after it finds the truth.
TEST(Island, IsUncertainOfAnEngineWhoseSwitchWasCutOff) {
  for (const char* point :
       {"agent.uncertain_noted", "agent.paused", "agent.loaded", "agent.verified", "agent.resumed"}) {
    IslandOf one(1);
    Must(one.Move());
    {
      const WithFailpoints failpoints(fmt::format("{}:error", point));
      EXPECT_THAT(one.Move(), Fails(Code::kIo));
    }
    one.Restart();
    one.island->Look();
    EXPECT_FALSE(one.View(0).in_rotation) << point;
    EXPECT_EQ(Must(one.Again()).by_changes, 0u) << point;
    EXPECT_TRUE(one.Serves(0)) << point;
    EXPECT_FALSE(one.servers[0]->paused()) << point;
  }
}

TEST(Island, H2_FlushesWhatOlderWeightsComputedUnlessAskedToKeepIt) {
  for (const CachePolicy policy : {CachePolicy::kFlush, CachePolicy::kKeep}) {
    IslandOf one(1, {.cache = policy});
    Must(one.Move());
    Must(one.servers[0]->Generate("a prompt"));
    Must(one.Move());
    const auto answer = Must(one.servers[0]->Generate("a prompt"));
    EXPECT_EQ(answer.prefix.empty(), policy == CachePolicy::kFlush);
  }
}

TEST(Island, GoesOnWithoutAStraggler) {
  IslandOf two(2, {.straggler = milliseconds(50)});
  Must(two.Move());
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  two.servers[1]->OnCall([gate](EngineCall call) {
    if (call == EngineCall::kLoad) gate.wait();
  });
  EXPECT_EQ(Must(two.Move()).engines, 1u);
  EXPECT_FALSE(two.View(1).in_rotation);
  EXPECT_EQ(two.View(1).busy, "load");
  two.island->Look();
  EXPECT_EQ(two.View(1).busy, "load") << "it is not asked anything while it is in a call";
  two.servers[1]->OnCall({});
  go.set_value();
  while (!two.View(1).busy.empty()) two.island->Look();
  Must(two.Again());
  EXPECT_TRUE(two.Serves(1));
}

}  // namespace
}  // namespace skerry
