// What every adapter must do, as one typed suite. An adapter's test file says
//
//   struct ExecBackend {
//     // An engine that serves the weights of `boot`, and an adapter to it.
//     ExecBackend(const Path& boot, const EngineOptions& options);
//     Engine& engine();
//     std::string ServedModel();            // model digest in hexadecimal of what it serves
//     bool paused();
//     void Fail(EngineCall call, int way);  // the next such call fails, in one of kWays ways
//     void Hang(EngineCall call);           // and does not answer
//     void Restart();                       // a new process with the boot weights
//     void Stop();
//     static constexpr int kWays = 1;       // 0: nothing can fail
//     static constexpr bool kTellsLabel = false;  // Probe asks the engine, and does not remember what it was told
//     static constexpr bool kDrains = true;
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Exec, EngineConformance, ExecBackend);
#ifndef SKERRY_ENGINE_ENGINE_CONFORMANCE_H_
#define SKERRY_ENGINE_ENGINE_CONFORMANCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "skerry/engine/engine_call.h"
#include "skerry/engine/updates_testing.h"

namespace skerry {

template <typename Backend>
class EngineConformance : public testing::Test {
 protected:
  // Times that no healthy call reaches, but for the one that the test lets hang.
  static EngineOptions Patient() {
    using std::chrono::seconds;
    return {.timeouts = {.control = seconds(60), .drain = seconds(60), .load = seconds(60)}};
  }
  Backend& Start(const EngineOptions& options = Patient()) {
    backend.emplace(model.boot(), options);
    EXPECT_THAT(Attach(engine(), model.boot()), Succeeds());
    return *backend;
  }
  Engine& engine() { return backend->engine(); }
  std::string Label() { return Must(engine().Probe()).label; }

  // An update's calls until one fails.
  struct Failure {
    EngineCall call;
    Error error;
  };
  std::optional<Failure> FirstFailure(const WeightUpdate& update) {
    const auto failed = [](EngineCall call, const Status& status) -> std::optional<Failure> {
      if (status) return std::nullopt;
      return Failure{call, status.error()};
    };
    if (auto f = failed(EngineCall::kPrepare, engine().Prepare(update))) return f;
    if (auto f = failed(EngineCall::kPause, engine().Pause(PausePolicy::kInPlace))) return f;
    if (auto f = failed(EngineCall::kLoad, engine().Load(update))) return f;
    if (auto f = failed(EngineCall::kResetCache, engine().ResetCache())) return f;
    if (auto f = failed(EngineCall::kVerify, engine().Verify(update))) return f;
    return failed(EngineCall::kResume, engine().Resume());
  }

  MovingModel model;
  std::optional<Backend> backend;
};
TYPED_TEST_SUITE_P(EngineConformance);

inline constexpr EngineCall kUpdateCalls[] = {EngineCall::kPrepare,    EngineCall::kPause,  EngineCall::kLoad,
                                              EngineCall::kResetCache, EngineCall::kVerify, EngineCall::kResume};

TYPED_TEST_P(EngineConformance, MovesFromVersionToVersion) {
  TypeParam& backend = this->Start();
  for (int step = 0; step < 3; ++step) {
    const WeightUpdate update = this->model.Step();
    ASSERT_THAT(Move(this->engine(), update), Succeeds());
    EXPECT_EQ(backend.ServedModel(), update.model.Hex());
    EXPECT_EQ(this->Label(), update.label);
    EXPECT_FALSE(backend.paused());
  }
}

TYPED_TEST_P(EngineConformance, MovesByChangesWhereItTakesThem) {
  TypeParam& backend = this->Start();
  ASSERT_THAT(Move(this->engine(), this->model.Whole()), Succeeds());
  for (int step = 0; step < 3; ++step) {
    const WeightUpdate update = this->model.StepWithChanges();
    ASSERT_THAT(Move(this->engine(), update), Succeeds());
    EXPECT_EQ(backend.ServedModel(), update.model.Hex());
  }
}

TYPED_TEST_P(EngineConformance, RefusesChangesToWhatItDoesNotServe) {
  TypeParam& backend = this->Start();
  if (!this->engine().TakesChanges()) GTEST_SKIP() << this->engine().Describe() << " loads the whole model";
  this->model.Step();
  EXPECT_FALSE(this->engine().Prepare(this->model.StepWithChanges()).has_value());
  EXPECT_EQ(backend.ServedModel(), ModelOf(this->model.boot()).Hex());
}

TYPED_TEST_P(EngineConformance, MovesBackToAnOlderVersion) {
  TypeParam& backend = this->Start();
  const WeightUpdate older = this->model.Step();
  ASSERT_THAT(Move(this->engine(), older), Succeeds());
  ASSERT_THAT(Move(this->engine(), this->model.Step()), Succeeds());
  ASSERT_THAT(Move(this->engine(), older), Succeeds());
  EXPECT_EQ(backend.ServedModel(), older.model.Hex());
  EXPECT_EQ(this->Label(), older.label);
}

TYPED_TEST_P(EngineConformance, ServesTheOldWeightsUntilLoad) {
  TypeParam& backend = this->Start();
  ASSERT_THAT(Move(this->engine(), this->model.Whole()), Succeeds());
  const std::string before = backend.ServedModel();
  const WeightUpdate update = this->model.Step();
  ASSERT_THAT(this->engine().Prepare(update), Succeeds());
  EXPECT_FALSE(backend.paused());
  ASSERT_THAT(this->engine().Pause(PausePolicy::kAbort), Succeeds());
  EXPECT_TRUE(backend.paused());
  EXPECT_EQ(backend.ServedModel(), before);
  EXPECT_NE(this->Label(), update.label);
  ASSERT_THAT(this->engine().Resume(), Succeeds());
  EXPECT_FALSE(backend.paused());
  EXPECT_EQ(backend.ServedModel(), before);
}

TYPED_TEST_P(EngineConformance, TakesEveryCallTwice) {
  TypeParam& backend = this->Start();
  const WeightUpdate update = this->model.Step();
  const auto twice = [](auto call) {
    EXPECT_THAT(call(), Succeeds());
    EXPECT_THAT(call(), Succeeds());
  };
  Engine& engine = this->engine();
  twice([&] { return engine.Prepare(update); });
  twice([&] { return engine.Pause(PausePolicy::kInPlace); });
  twice([&] { return engine.Load(update); });
  twice([&] { return engine.ResetCache(); });
  twice([&] { return engine.Verify(update); });
  twice([&] { return engine.Resume(); });
  EXPECT_EQ(backend.ServedModel(), update.model.Hex());
}

TYPED_TEST_P(EngineConformance, SaysWhichCallFailedAndComesBackByAWholeLoad) {
  for (const EngineCall call : kUpdateCalls) {
    for (int way = 0; way < TypeParam::kWays; ++way) {
      SCOPED_TRACE(fmt::format("{} in way {}", EngineCallName(call), way));
      TypeParam& backend = this->Start();
      const WeightUpdate update = this->model.Step();
      backend.Fail(call, way);
      const auto failure = this->FirstFailure(update);
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->call, call);
      EXPECT_TRUE(failure->error.message.starts_with(this->engine().Describe() + ": ")) << failure->error.message;
      EXPECT_TRUE(failure->error.code == Code::kIo || failure->error.code == Code::kUnavailable ||
                  failure->error.code == Code::kUnsupported)
          << CodeName(failure->error.code);
      EXPECT_THAT(Move(this->engine(), update), Succeeds());
      EXPECT_EQ(backend.ServedModel(), update.model.Hex());
    }
  }
}

TYPED_TEST_P(EngineConformance, DoesNotCallWeightsNewThatFailedToLoad) {
  for (int way = 0; way < TypeParam::kWays; ++way) {
    TypeParam& backend = this->Start();
    ASSERT_THAT(Move(this->engine(), this->model.Whole()), Succeeds());
    const std::string before = this->Label();
    const WeightUpdate update = this->model.Step();
    backend.Fail(EngineCall::kLoad, way);
    ASSERT_EQ(this->FirstFailure(update)->call, EngineCall::kLoad);
    EXPECT_NE(this->Label(), update.label);
    EXPECT_FALSE(this->engine().Verify(update).has_value());
    EXPECT_TRUE(backend.paused());
  }
}

TYPED_TEST_P(EngineConformance, H13_GivesUpAnEngineThatHangsInALoad) {
  if (TypeParam::kWays == 0) GTEST_SKIP();
  EngineOptions options = this->Patient();
  options.timeouts.load = std::chrono::milliseconds(700);
  TypeParam& backend = this->Start(options);
  const WeightUpdate update = this->model.Step();
  ASSERT_THAT(this->engine().Prepare(update), Succeeds());
  ASSERT_THAT(this->engine().Pause(PausePolicy::kInPlace), Succeeds());
  backend.Hang(EngineCall::kLoad);
  const Status hung = this->engine().Load(update);
  EXPECT_THAT(hung, Fails(Code::kUnavailable, testing::HasSubstr(this->engine().Describe())));
  EXPECT_THAT(this->engine().Resume(), Succeeds()) << "nothing is held by the call that hung";
}

TYPED_TEST_P(EngineConformance, GivesUpRequestsThatNeverDrain) {
  if (TypeParam::kWays == 0) GTEST_SKIP();
  EngineOptions options = this->Patient();
  options.timeouts.drain = std::chrono::milliseconds(300);
  TypeParam& backend = this->Start(options);
  EXPECT_EQ(this->engine().CanPause(PausePolicy::kDrain), TypeParam::kDrains);
  EXPECT_TRUE(this->engine().CanPause(PausePolicy::kInPlace));
  backend.Hang(EngineCall::kPause);
  EXPECT_THAT(this->engine().Pause(PausePolicy::kDrain),
              Fails(TypeParam::kDrains ? Code::kUnavailable : Code::kUnsupported));
}

TYPED_TEST_P(EngineConformance, H12_FindsAStoppedEngineUnavailable) {
  if (!TypeParam::kTellsLabel) GTEST_SKIP();
  TypeParam& backend = this->Start();
  const WeightUpdate update = this->model.Step();
  backend.Stop();
  const auto unavailable = Fails(Code::kUnavailable, testing::HasSubstr(this->engine().Describe()));
  EXPECT_THAT(this->engine().Probe(), unavailable);
  EXPECT_THAT(this->engine().Prepare(update), unavailable);
  EXPECT_THAT(this->engine().Pause(PausePolicy::kInPlace), unavailable);
  EXPECT_THAT(this->engine().Load(update), unavailable);
  EXPECT_THAT(this->engine().ResetCache(), unavailable);
  EXPECT_THAT(this->engine().Verify(update), unavailable);
  EXPECT_THAT(this->engine().Resume(), unavailable);
}

TYPED_TEST_P(EngineConformance, G1_TellsARestartByItsInstanceAndItsLabel) {
  if (!TypeParam::kTellsLabel) GTEST_SKIP();
  TypeParam& backend = this->Start();
  const WeightUpdate update = this->model.Step();
  ASSERT_THAT(Move(this->engine(), update), Succeeds());
  const EngineFacts before = Must(this->engine().Probe());
  EXPECT_EQ(Must(this->engine().Probe()).instance, before.instance);
  backend.Restart();
  const EngineFacts after = Must(this->engine().Probe());
  EXPECT_NE(after.instance, before.instance);
  EXPECT_EQ(ParseWeightLabel(after.label), std::nullopt);
  EXPECT_THAT(this->engine().Verify(update), Fails(Code::kMismatch, testing::HasSubstr(update.label)));
}

TYPED_TEST_P(EngineConformance, NoticesARestartBetweenLoadAndVerify) {
  if (!TypeParam::kTellsLabel) GTEST_SKIP();
  TypeParam& backend = this->Start();
  const WeightUpdate update = this->model.Step();
  ASSERT_THAT(this->engine().Prepare(update), Succeeds());
  ASSERT_THAT(this->engine().Pause(PausePolicy::kInPlace), Succeeds());
  ASSERT_THAT(this->engine().Load(update), Succeeds());
  backend.Restart();
  EXPECT_THAT(this->engine().Verify(update), Fails(Code::kMismatch));
}

REGISTER_TYPED_TEST_SUITE_P(EngineConformance, MovesFromVersionToVersion, MovesByChangesWhereItTakesThem,
                            RefusesChangesToWhatItDoesNotServe, MovesBackToAnOlderVersion, ServesTheOldWeightsUntilLoad,
                            TakesEveryCallTwice, SaysWhichCallFailedAndComesBackByAWholeLoad,
                            DoesNotCallWeightsNewThatFailedToLoad, H13_GivesUpAnEngineThatHangsInALoad,
                            GivesUpRequestsThatNeverDrain, H12_FindsAStoppedEngineUnavailable,
                            G1_TellsARestartByItsInstanceAndItsLabel, NoticesARestartBetweenLoadAndVerify);

}  // namespace skerry

#endif  // SKERRY_ENGINE_ENGINE_CONFORMANCE_H_
