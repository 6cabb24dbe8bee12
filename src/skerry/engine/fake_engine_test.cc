#include "skerry/engine/fake_engine.h"

#include "skerry/engine/engine_conformance.h"

namespace skerry {
namespace {

template <bool changes>
struct FakeBackend {
  static constexpr int kWays = 2;
  static constexpr bool kTellsLabel = true, kDrains = true;

  FakeBackend(const Path& boot, const EngineOptions& options) : server(boot), adapter(server, options) {
    server.TakeChanges(changes);
  }
  Engine& engine() { return adapter; }
  std::string ServedModel() { return server.ServedModel(); }
  bool paused() { return server.paused(); }
  void Fail(EngineCall call, int way) {
    server.Script(call, {.kind = way == 0 ? FakeFault::Kind::kFails : FakeFault::Kind::kRefuses});
  }
  void Hang(EngineCall call) { server.Script(call, {.kind = FakeFault::Kind::kHangs}); }
  void Restart() { Must(server.Restart()); }
  void Stop() { server.Stop(); }

  FakeServer server;
  FakeEngine adapter;
};
using FakeWhole = FakeBackend<false>;
using FakeByChanges = FakeBackend<true>;
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, EngineConformance, FakeWhole);
INSTANTIATE_TYPED_TEST_SUITE_P(FakeByChanges, EngineConformance, FakeByChanges);

class FakeEngineTest : public testing::Test {
 protected:
  MovingModel model;
  FakeServer server{model.boot()};
  FakeEngine engine{server};
};

TEST_F(FakeEngineTest, KeepsATraceOfItsCallsInTheirOrder) {
  const WeightUpdate update = model.Step();
  server.Script(EngineCall::kVerify, {});
  EXPECT_THAT(Move(engine, update), Fails(Code::kIo));
  EXPECT_EQ(server.TraceText(), "prepare pause load reset_cache verify");
  const auto trace = server.trace();
  for (size_t i = 0; i < trace.size(); ++i) {
    EXPECT_EQ(trace[i].ok, i != 4);
    EXPECT_LE(trace[i].begin, trace[i].end);
    if (i > 0) {
      EXPECT_LE(trace[i - 1].end, trace[i].begin);
    }
  }
  EXPECT_EQ(trace[1].label, "in-place");
  EXPECT_EQ(trace[2].label, update.label);
}

TEST_F(FakeEngineTest, HoldsAMixtureAfterAPartialLoad) {
  const WeightUpdate update = model.Step();
  server.Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kPartly});
  ASSERT_THAT(engine.Pause(PausePolicy::kInPlace), Succeeds());
  EXPECT_THAT(engine.Load(update), Fails(Code::kIo));
  EXPECT_NE(server.ServedModel(), update.model.Hex());
  EXPECT_NE(server.ServedModel(), ModelOf(model.boot()).Hex());
  EXPECT_EQ(server.label(), kUncertainLabel);
}

TEST_F(FakeEngineTest, H12_MayHaveSwitchedBeforeItsAnswerWasLost) {
  const WeightUpdate update = model.Step();
  server.Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kHangs, .works = true});
  ASSERT_THAT(engine.Pause(PausePolicy::kInPlace), Succeeds());
  EXPECT_THAT(engine.Load(update), Fails(Code::kUnavailable));
  EXPECT_EQ(server.ServedModel(), update.model.Hex());
}

TEST_F(FakeEngineTest, H4_OfThreeEnginesEachTellsItsOwnVersionAfterAPartialFanOut) {
  FakeServer second(model.boot(), "second"), third(model.boot(), "third");
  FakeEngine to_second(second), to_third(third);
  const WeightUpdate update = model.Step();
  second.Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kPartly});
  third.Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kHangs});
  EXPECT_THAT(Move(engine, update), Succeeds());
  EXPECT_THAT(Move(to_second, update), Fails(Code::kIo, testing::HasSubstr("second: load")));
  EXPECT_THAT(Move(to_third, update), Fails(Code::kUnavailable, testing::HasSubstr("third: load")));
  EXPECT_EQ(Must(engine.Probe()).label, update.label);
  EXPECT_EQ(Must(to_second.Probe()).label, kUncertainLabel);
  EXPECT_EQ(Must(to_third.Probe()).label, "default");
  EXPECT_TRUE(second.paused() && third.paused());
}

TEST_F(FakeEngineTest, H6_FindsThatAnEngineLoadedOldFiles) {
  WeightUpdate update = model.Step();
  server.CacheFilesByPath(true);
  ASSERT_THAT(Move(engine, update), Succeeds());
  const WeightUpdate next = model.Step();
  std::filesystem::remove_all(update.checkpoint);
  std::filesystem::copy(next.checkpoint, update.checkpoint);
  update.model = next.model;
  update.label = next.label;
  EXPECT_THAT(Move(engine, update), Fails(Code::kMismatch, testing::HasSubstr(next.model.Short())));
}

TEST_F(FakeEngineTest, FindsThatAnEngineSaidSuccessAndDidNothing) {
  server.Script(EngineCall::kLoad, {.kind = FakeFault::Kind::kStale});
  EXPECT_THAT(Move(engine, model.Step()), Fails(Code::kMismatch));
}

TEST_F(FakeEngineTest, H2_AnswersFromThePrefixCacheUntilItIsFlushed) {
  const std::string boot = server.ServedModel();
  EXPECT_EQ(Must(server.Generate("p")).prefix, "");
  EXPECT_EQ(Must(server.Generate("p")).prefix, boot);
  const WeightUpdate update = model.Step();
  ASSERT_THAT(engine.Pause(PausePolicy::kInPlace), Succeeds());
  EXPECT_THAT(server.Generate("p"), Fails(Code::kUnavailable));
  ASSERT_THAT(engine.Load(update), Succeeds());
  ASSERT_THAT(engine.Resume(), Succeeds());
  const auto stale = Must(server.Generate("p"));
  EXPECT_EQ(stale.weights, update.model.Hex());
  EXPECT_EQ(stale.prefix, boot) << "kept: old weights computed the prefix";
  EXPECT_EQ(Must(server.Generate("p", update.label)).prefix, "") << "another salt, another cache";
  ASSERT_THAT(engine.ResetCache(), Succeeds());
  EXPECT_EQ(Must(server.Generate("p")).prefix, "") << "flushed";
}

TEST_F(FakeEngineTest, H3_RefusesAFlushWhileRequestsRun) {
  server.RefuseFlushWhileRunning(true);
  server.StartRequests(1);
  ASSERT_THAT(engine.Pause(PausePolicy::kInPlace), Succeeds());
  EXPECT_THAT(engine.ResetCache(), Fails(Code::kIo, testing::HasSubstr("1 requests")));
  ASSERT_THAT(engine.Pause(PausePolicy::kAbort), Succeeds());
  EXPECT_THAT(engine.ResetCache(), Succeeds());
}

TEST_F(FakeEngineTest, H7_TakesNoWeightsWhileAsleepAndMayWakeWithoutItsOwn) {
  const WeightUpdate update = model.Step();
  ASSERT_THAT(Move(engine, update), Succeeds());
  server.Sleep();
  EXPECT_TRUE(Must(engine.Probe()).asleep);
  EXPECT_THAT(engine.Prepare(model.Step()), Fails(Code::kUnavailable, testing::HasSubstr("asleep")));
  Must(server.Wake(/*weights_kept=*/false));
  EXPECT_EQ(Must(engine.Probe()).label, update.label) << "the engine does not know better";
  EXPECT_EQ(server.ServedModel(), ModelOf(model.boot()).Hex());
}

}  // namespace
}  // namespace skerry
