#include "skerry/engine/sglang_engine.h"

#include "skerry/engine/engine_conformance.h"
#include "skerry/engine/sglang_contract_testing.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct SglangBackend {
  static constexpr int kWays = 4;
  static constexpr bool kTellsLabel = true, kDrains = false;

  SglangBackend(const Path& boot, const EngineOptions& options)
      : server(boot), adapter({.url = server.url()}, options) {}
  Engine& engine() { return adapter; }
  std::string ServedModel() { return server.ServedModel(); }
  bool paused() { return server.paused(); }
  // A flush that was refused is tried once more after requests are put back, and an empty answer to it is fine.
  void Fail(EngineCall call, int way) {
    constexpr WireFault kFaults[] = {WireFault::kStatus500, WireFault::kStatus503, WireFault::kReset,
                                     WireFault::kSuccessFalse};
    server.Fail(RouteOf(call), kFaults[way], call == EngineCall::kResetCache && (way == 0 || way == 3) ? 2 : 1);
  }
  void Hang(EngineCall call) { server.Fail(RouteOf(call), WireFault::kHang); }
  void Restart() { server.Restart(); }
  void Stop() { server.Stop(); }

  static std::string RouteOf(EngineCall call) {
    switch (call) {
      case EngineCall::kPrepare: return "/weights_checker";
      case EngineCall::kPause: return "/pause_generation";
      case EngineCall::kLoad: return "/update_weights_from_disk";
      case EngineCall::kResetCache: return "/flush_cache";
      case EngineCall::kVerify: return "/model_info";
      case EngineCall::kResume: return "/continue_generation";
      default: return "/server_info";
    }
  }

  SglangContract server;
  SglangEngine adapter;
};

// The same with checksums, so that Prepare has something that can fail.
struct SglangChecked : SglangBackend {
  SglangChecked(const Path& boot, const EngineOptions& options)
      : SglangBackend(boot, options), checked({.url = server.url(), .verify_checksum = true}, options) {}
  Engine& engine() { return checked; }
  SglangEngine checked;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Sglang, EngineConformance, SglangChecked);

EngineOptions Patient(std::string token = "") {
  const std::chrono::minutes time(1);
  return {.timeouts = {.control = time, .drain = time, .load = time}, .bearer_token = std::move(token)};
}

class SglangTest : public testing::Test {
 protected:
  template <typename Get>
  auto Of(Get get) {
    decltype(get(server)) value{};
    server.Set([&](SglangContract& s) { value = get(s); });
    return value;
  }

  MovingModel model;
  SglangContract server{model.boot()};
  SglangEngine engine{{.url = server.url()}, Patient("TOKEN")};
};

TEST_F(SglangTest, TellsWhatTheServerIs) {
  const EngineFacts facts = Must(engine.Probe());
  EXPECT_EQ(facts.version, "0.5");
  EXPECT_EQ(facts.label, "default");
  EXPECT_EQ(facts.model, model.boot().string());
  EXPECT_EQ(facts.workers, 2u);
  EXPECT_EQ(facts.instance, "1.25");
  server.Set([](SglangContract& s) { s.knows_server_info = false; });
  EXPECT_EQ(Must(engine.Probe()).version, "");
}

TEST_F(SglangTest, KeepsRunningRequestsAndNeverFlushesInsideTheSwitch) {
  ASSERT_THAT(Attach(engine, model.boot()), Succeeds());
  server.Set([](SglangContract& s) { s.running = 3; });
  ASSERT_THAT(engine.Pause(PausePolicy::kInPlace), Succeeds());
  ASSERT_THAT(engine.Load(model.Step()), Succeeds());
  EXPECT_EQ(Of([](SglangContract& s) { return s.running; }), 3);
  EXPECT_EQ(Of([](SglangContract& s) { return s.aborted; }), 0);
  EXPECT_EQ(Of([](SglangContract& s) { return s.crashes; }), 0);
  EXPECT_EQ(Of([](SglangContract& s) { return s.flushes; }), 0);
  EXPECT_EQ(server.LastBody("/update_weights_from_disk").at("load_format"), nullptr);
}

TEST_F(SglangTest, H2_H3_PutsRunningRequestsBackWhereTheFlushIsRefused) {
  ASSERT_THAT(Attach(engine, model.boot()), Succeeds());
  server.Set([](SglangContract& s) { s.running = 1; });
  ASSERT_THAT(Move(engine, model.Step()), Succeeds());
  EXPECT_EQ(Of([](SglangContract& s) { return s.flushes; }), 1);
  EXPECT_EQ(Of([](SglangContract& s) { return s.aborted; }), 0);
  EXPECT_EQ(server.LastBody("/pause_generation").at("mode"), "retract");
}

TEST_F(SglangTest, H3_FailsWhereRequestsStillRunAndDoesNotResume) {
  ASSERT_THAT(Attach(engine, model.boot()), Succeeds());
  ASSERT_THAT(engine.Pause(PausePolicy::kAbort), Succeeds());
  server.Set([](SglangContract& s) { s.running = 1; });
  EXPECT_THAT(engine.ResetCache(),
              Fails(Code::kIo, AllOf(HasSubstr("/flush_cache"), HasSubstr("400"), HasSubstr("pending requests"))));
  EXPECT_TRUE(server.paused());
}

TEST_F(SglangTest, SendsTheTokenAndNeverShowsIt) {
  ASSERT_THAT(engine.Probe(), Succeeds());
  EXPECT_EQ(server.LastAuthorization(), "Bearer TOKEN");
  server.Fail("/pause_generation", WireFault::kStatus500);
  EXPECT_THAT(engine.Pause(PausePolicy::kAbort), Fails(Code::kIo, Not(HasSubstr("TOKEN"))));
}

TEST_F(SglangTest, H11_H15_ShowsWhyTheEngineRefusedTheWeights) {
  ASSERT_THAT(Attach(engine, model.boot()), Succeeds());
  server.Set([](SglangContract& s) { s.refusal = "Failed: parameter lm_head.weight not found"; });
  EXPECT_THAT(Move(engine, model.Step()),
              Fails(Code::kIo, AllOf(HasSubstr("400"), HasSubstr("lm_head.weight not found"))));
  EXPECT_EQ(Must(engine.Probe()).label, kUncertainLabel);
}

TEST_F(SglangTest, H6_FindsByChecksumThatTheReloadReadOldFiles) {
  SglangEngine checked({.url = server.url(), .verify_checksum = true}, Patient());
  ASSERT_THAT(Attach(checked, model.boot()), Succeeds());
  server.Set([](SglangContract& s) { s.caches_files = true; });
  WeightUpdate update = model.Step();
  ASSERT_THAT(Move(checked, update), Succeeds());
  const WeightUpdate next = model.Step();
  std::filesystem::remove_all(update.checkpoint);
  std::filesystem::copy(next.checkpoint, update.checkpoint);
  update.model = next.model;
  EXPECT_THAT(Move(checked, update), Fails(Code::kMismatch, HasSubstr("loaded old files")));
}

TEST_F(SglangTest, RefusesOnCpuWhatIsPackedAtTheFirstLoad) {
  server.Set([](SglangContract& s) { s.device = "cpu"; });
  const MovingModel experts(R"({"tie_word_embeddings": false, "num_experts": 8})");
  EXPECT_THAT(Attach(engine, experts.boot()), Fails(Code::kUnsupported, HasSubstr("\"num_experts\": 8")));
  EXPECT_THAT(Attach(engine, model.boot()), Succeeds());
}

}  // namespace
}  // namespace skerry
