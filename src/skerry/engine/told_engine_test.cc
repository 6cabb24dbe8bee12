// The engines that are told and can't be asked: webhook and none.
#include "skerry/engine/told_engine.h"

#include "skerry/engine/contract_server_testing.h"
#include "skerry/engine/engine_conformance.h"
#include "skerry/engine/none_engine.h"
#include "skerry/engine/webhook_engine.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HookService : public ContractServer {
 public:
  explicit HookService(std::string model) : model_(std::move(model)) { Start(); }
  std::string model() const {
    const std::lock_guard lock(mutex_);
    return model_;
  }
  bool paused() const {
    const std::lock_guard lock(mutex_);
    return paused_;
  }
  // The next POST of this phase.
  void FailPhase(std::string phase, WireFault fault) {
    const std::lock_guard lock(mutex_);
    phase_ = std::move(phase);
    fault_ = fault;
  }

 private:
  WireAnswer Route(const std::string& method, const std::string&, const std::string&,
                   const nlohmann::json& body) override {
    if (method != "POST") return Answer(405);
    const std::string phase = body.at("phase").get<std::string>();
    if (phase == phase_) {
      phase_.clear();
      return FaultyAnswer(fault_);
    }
    if (phase == "load") model_ = body.at("model").get<std::string>();
    if (phase == "pause" || phase == "resume") paused_ = phase == "pause";
    return Answer(204);
  }
  std::string model_, phase_;
  WireFault fault_ = WireFault::kStatus500;
  bool paused_ = false;
};

struct WebhookBackend {
  // An empty body and one that is not JSON are fine here.
  static constexpr WireFault kFaults[] = {WireFault::kStatus500, WireFault::kStatus503, WireFault::kReset,
                                          WireFault::kSuccessFalse, WireFault::kNoRoute};
  static constexpr int kWays = std::size(kFaults);
  static constexpr bool kTellsLabel = false, kDrains = true;

  WebhookBackend(const Path& boot, const EngineOptions& options)
      : service(ModelOf(boot).Hex()), adapter(service.url() + "/hook?key=SECRET", options) {}
  Engine& engine() { return adapter; }
  std::string ServedModel() { return service.model(); }
  bool paused() { return service.paused(); }
  void Fail(EngineCall call, int way) { service.FailPhase(std::string(EngineCallName(call)), kFaults[way]); }
  void Hang(EngineCall call) { service.FailPhase(std::string(EngineCallName(call)), WireFault::kHang); }
  void Restart() {}
  void Stop() {}

  HookService service;
  WebhookEngine adapter;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Webhook, EngineConformance, WebhookBackend);

TEST(WebhookEngine, PostsThePhaseWithTheUpdate) {
  MovingModel model;
  const WeightUpdate update = model.Step();
  HookService service("");
  WebhookEngine engine(service.url() + "/a/hook?key=SECRET", {.bearer_token = "TOKEN"});
  EXPECT_THAT(engine.Describe(), AllOf(HasSubstr("/a/hook"), Not(HasSubstr("SECRET"))));
  ASSERT_THAT(engine.Pause(PausePolicy::kInPlace), Succeeds());
  EXPECT_EQ(service.LastBody("/a/hook"), (nlohmann::json{{"phase", "pause"}, {"pause", "in-place"}}));
  ASSERT_THAT(engine.Load(update), Succeeds());
  EXPECT_EQ(service.LastBody("/a/hook"), (nlohmann::json{{"phase", "load"},
                                                         {"run", "grpo"},
                                                         {"version", 1},
                                                         {"label", "grpo@1"},
                                                         {"model", update.model.Hex()},
                                                         {"checkpoint", update.checkpoint.string()}}));
  EXPECT_EQ(service.LastAuthorization(), "Bearer TOKEN");
  EXPECT_EQ(service.trace().back(), "POST /a/hook?key=SECRET");
  service.FailPhase("verify", WireFault::kStatus500);
  EXPECT_THAT(engine.Verify(update), Fails(Code::kIo, AllOf(HasSubstr("500"), HasSubstr("a scripted failure"),
                                                            Not(HasSubstr("SECRET")), Not(HasSubstr("TOKEN")))));
}

// Nobody serves: what the adapter was last told to load stands for it.
class RecordingNone : public NoneEngine {
 public:
  Status Load(const WeightUpdate& update) override {
    model = update.model.Hex();
    return NoneEngine::Load(update);
  }
  std::string model;
};

struct NoneBackend {
  static constexpr int kWays = 0;
  static constexpr bool kTellsLabel = false, kDrains = true;

  NoneBackend(const Path& boot, const EngineOptions&) { adapter.model = ModelOf(boot).Hex(); }
  Engine& engine() { return adapter; }
  std::string ServedModel() { return adapter.model; }
  bool paused() { return Must(adapter.Probe()).paused; }
  void Fail(EngineCall, int) {}
  void Hang(EngineCall) {}
  void Restart() {}
  void Stop() {}

  RecordingNone adapter;
};
INSTANTIATE_TYPED_TEST_SUITE_P(None, EngineConformance, NoneBackend);

TEST(NoneEngine, RemembersWhatItWasToldAndFailsNever) {
  MovingModel model;
  NoneEngine engine;
  EXPECT_EQ(Must(engine.Probe()).label, "");
  const WeightUpdate update = model.Step();
  EXPECT_THAT(engine.Verify(update), Fails(Code::kMismatch));
  EXPECT_THAT(Move(engine, update, PausePolicy::kDrain), Succeeds());
  EXPECT_EQ(Must(engine.Probe()).label, update.label);
  EXPECT_FALSE(Must(engine.Probe()).paused);
  EXPECT_FALSE(engine.TakesChanges());
}

}  // namespace
}  // namespace skerry
