#include "skerry/engine/vllm_engine.h"

#include "skerry/engine/engine_conformance.h"
#include "skerry/engine/vllm_contract_testing.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

template <bool plugin>
struct VllmBackend {
  static constexpr int kWays = std::size(kAnsweringFaults);
  static constexpr bool kTellsLabel = true, kDrains = true;

  VllmBackend(const Path& boot, const EngineOptions& options)
      : server(boot, plugin, plugin ? 2 : 1), adapter({.url = server.url()}, options) {}
  Engine& engine() { return adapter; }
  std::string ServedModel() { return server.ServedModel(); }
  bool paused() { return server.paused(); }
  void Fail(EngineCall call, int way) { server.Fail(RouteOf(call), kAnsweringFaults[way]); }
  void Hang(EngineCall call) { server.Fail(RouteOf(call), WireFault::kHang); }
  void Restart() { server.Restart(); }
  void Stop() { server.Stop(); }

  static std::string RouteOf(EngineCall call) {
    switch (call) {
      case EngineCall::kPrepare: return plugin ? "/collective_rpc skerry_prepare" : "/is_sleeping";
      case EngineCall::kPause: return "/pause";
      case EngineCall::kLoad: return plugin ? "/collective_rpc skerry_commit" : "/collective_rpc reload_weights";
      case EngineCall::kResetCache: return "/reset_prefix_cache";
      case EngineCall::kVerify: return "/weight_info";
      case EngineCall::kResume: return "/resume";
      default: return "/version";
    }
  }

  VllmContract server;
  VllmEngine adapter;
};
using VllmByReload = VllmBackend<false>;
using VllmByPlugin = VllmBackend<true>;
INSTANTIATE_TYPED_TEST_SUITE_P(VllmReload, EngineConformance, VllmByReload);
INSTANTIATE_TYPED_TEST_SUITE_P(VllmPlugin, EngineConformance, VllmByPlugin);

EngineOptions Patient() {
  const std::chrono::minutes time(1);
  return {.timeouts = {.control = time, .drain = time, .load = time}};
}

class VllmTest : public testing::Test {
 protected:
  void Start(bool plugin, size_t workers = 1, EngineAddress address = {}) {
    server = std::make_unique<VllmContract>(model.boot(), plugin, workers);
    address.url = server->url();
    engine =
        std::make_unique<VllmEngine>(address, Patient(), Waiting{.sleep = [](auto) {}, .random = [] { return 0.0; }});
  }
  // Of what Attach says for a model with such a config.
  Status AttachModel(const std::string& config) { return Attach(*engine, MovingModel(config).boot()); }

  MovingModel model;
  std::unique_ptr<VllmContract> server;
  std::unique_ptr<VllmEngine> engine;
};

TEST_F(VllmTest, TellsWhatTheServerIs) {
  Start(/*plugin=*/false);
  const EngineFacts facts = Must(engine->Probe());
  EXPECT_EQ(facts.kind, "vllm");
  EXPECT_EQ(facts.version, "0.32.0");
  EXPECT_EQ(facts.model, model.boot().string());
  EXPECT_EQ(facts.label, "default");
  EXPECT_EQ(facts.instance, "1700000001.5");
  EXPECT_EQ(facts.workers, 1u);
  EXPECT_FALSE(facts.paused || facts.asleep);
  EXPECT_FALSE(engine->TakesChanges());
}

TEST_F(VllmTest, BelievesTheWorkersMoreThanTheEnginesLabel) {
  Start(/*plugin=*/true, 2);
  EXPECT_EQ(Must(engine->Probe()).label, "default") << "nobody has moved them";
  EXPECT_EQ(Must(engine->Probe()).instance, "1700000001.5/1-0,1-1");
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  const WeightUpdate update = model.Step();
  ASSERT_THAT(Move(*engine, update), Succeeds());
  EXPECT_EQ(Must(engine->Probe()).label, update.label);
  server->Set([](VllmContract& s) { s.workers[1].label = ""; });  // one of them was started anew
  EXPECT_EQ(Must(engine->Probe()).label, kUncertainLabel);
}

TEST_F(VllmTest, ReloadsInThisOrder) {
  Start(/*plugin=*/false);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  const size_t before = server->trace().size();
  ASSERT_THAT(Move(*engine, model.Step()), Succeeds());
  const auto trace = server->trace();
  EXPECT_THAT(std::vector(trace.begin() + static_cast<ptrdiff_t>(before), trace.end()),
              ElementsAre("GET /is_sleeping", "POST /pause?mode=keep", "POST /update_weight_version",
                          "POST /collective_rpc reload_weights", "POST /update_weight_version",
                          "POST /reset_prefix_cache?reset_running_requests=true", "POST /reset_encoder_cache",
                          "GET /weight_info", "POST /resume"));
}

TEST_F(VllmTest, CommitsByThePluginInThisOrder) {
  Start(/*plugin=*/true);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  EXPECT_TRUE(engine->TakesChanges());
  const size_t before = server->trace().size();
  ASSERT_THAT(Move(*engine, model.Step(), PausePolicy::kDrain), Succeeds());
  const auto trace = server->trace();
  EXPECT_THAT(
      std::vector(trace.begin() + static_cast<ptrdiff_t>(before), trace.end()),
      ElementsAre("GET /is_sleeping", "POST /collective_rpc skerry_prepare", "POST /collective_rpc skerry_prepared",
                  "POST /pause?mode=wait", "POST /collective_rpc skerry_commit", "POST /update_weight_version",
                  "POST /reset_prefix_cache?reset_running_requests=true", "POST /reset_encoder_cache",
                  "GET /weight_info", "POST /collective_rpc skerry_verify", "POST /resume"));
}

TEST_F(VllmTest, SaysHowToStartAServerWithoutControlRoutes) {
  Start(/*plugin=*/false);
  server->Set([](VllmContract& s) { s.dev_mode = false; });
  EXPECT_THAT(engine->Probe(), Fails(Code::kUnsupported, HasSubstr("VLLM_SERVER_DEV_MODE=1")));
}

TEST_F(VllmTest, RefusesByReloadWhatAReloadGetsSilentlyWrong) {
  Start(/*plugin=*/false);
  const auto refused = [](std::string_view why) {
    return Fails(Code::kUnsupported,
                 AllOf(HasSubstr(std::string(why)), HasSubstr("--weight-transfer-config"), HasSubstr("reload=trust")));
  };
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": false, "num_experts": 8})"), refused("\"num_experts\": 8"));
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": false, "num_local_experts": 4})"), refused("num_local_experts"));
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": false, "text_config": {"n_routed_experts": 64}})"),
              refused("n_routed_experts"));
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": true})"), refused("tie_word_embeddings"));
  EXPECT_THAT(AttachModel(R"({"hidden_size": 8})"), refused("no lm_head"));
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": false, "quantization_config": {"quant_method": "fp8"}})"),
              refused("quantization_config"));
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": false, "num_experts": null})"), Succeeds());
  EXPECT_THAT(engine->Prepare(model.Step()), Succeeds());
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": true})"), Fails(Code::kUnsupported));
  EXPECT_THAT(engine->Prepare(model.Whole()), Fails(Code::kUnsupported)) << "not after a Check that refused";
}

TEST_F(VllmTest, ReloadsAnyModelOnAGpuBuildAndWhereTheUserTrustsIt) {
  Start(/*plugin=*/false);
  server->Set([](VllmContract& s) { s.device_type = "cuda"; });
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": true, "num_experts": 8})"), Succeeds());
  server->Fail("/server_info", WireFault::kNoRoute);
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": true})"), Fails(Code::kUnsupported)) << "nothing tells the device";
  Start(/*plugin=*/false, 1, {.trust_reload = true});
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": true, "num_experts": 8})"), Succeeds());
}

TEST_F(VllmTest, ChecksAModelByThePluginsWord) {
  Start(/*plugin=*/true);
  EXPECT_THAT(AttachModel(R"({"tie_word_embeddings": true, "num_experts": 8})"), Succeeds());
  server->Set([](VllmContract& s) { s.unsupported = "layer 3 is a pickle"; });
  EXPECT_THAT(AttachModel("{}"), Fails(Code::kUnsupported, HasSubstr("layer 3 is a pickle")));
}

TEST_F(VllmTest, DoesNotReloadWhatWasCheckedForThePlugin) {
  Start(/*plugin=*/true);
  ASSERT_THAT(AttachModel(R"({"tie_word_embeddings": true})"), Succeeds());
  server->Restart();
  server->Fail("/collective_rpc skerry_status", WireFault::kStatus500, -1);
  ASSERT_THAT(engine->Probe(), Succeeds());
  EXPECT_THAT(engine->Prepare(model.Step()), Fails(Code::kUnsupported, HasSubstr("without Skerry's plugin")));
  EXPECT_THAT(engine->Load(model.Whole()), Fails(Code::kUnsupported));
}

TEST_F(VllmTest, H2_H3_FlushesCachesOfRequestsThatKeepTheirPlace) {
  Start(/*plugin=*/false);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  server->Set([](VllmContract& s) { s.blocks_held = true; });
  EXPECT_THAT(Move(*engine, model.Step()), Succeeds());
  server->Fail("/reset_prefix_cache", WireFault::kSuccessFalse);
  EXPECT_THAT(Move(*engine, model.Step()), Fails(Code::kIo, HasSubstr("/reset_prefix_cache")));
  EXPECT_TRUE(server->paused()) << "it must not go on with old prefixes";
  server->Fail("/reset_encoder_cache", WireFault::kNoRoute);
  EXPECT_THAT(Move(*engine, model.Whole()), Succeeds()) << "a model without an encoder";
}

TEST_F(VllmTest, H6_FindsByChecksumThatTheReloadReadOldFiles) {
  Start(/*plugin=*/false, 1, {.verify_checksum = true});
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  WeightUpdate update = model.Step();
  ASSERT_THAT(Move(*engine, update), Succeeds());
  ASSERT_THAT(Move(*engine, update), Succeeds()) << "the same model again has the same checksums";
  server->Set([](VllmContract& s) { s.caches_files = true; });
  ASSERT_THAT(Move(*engine, update), Succeeds());
  const WeightUpdate next = model.Step();
  std::filesystem::remove_all(update.checkpoint);
  std::filesystem::copy(next.checkpoint, update.checkpoint);
  update.model = next.model;
  update.label = next.label;
  EXPECT_THAT(Move(*engine, update), Fails(Code::kMismatch, HasSubstr("loaded old files")));
}

TEST_F(VllmTest, H7_DefersAnEngineThatIsAsleep) {
  Start(/*plugin=*/true);
  server->Set([](VllmContract& s) { s.asleep = true; });
  EXPECT_TRUE(Must(engine->Probe()).asleep);
  EXPECT_THAT(Attach(*engine, model.boot()), Fails(Code::kUnsupported, HasSubstr("wake it")));
  server->Set([](VllmContract& s) { s.asleep = false; });
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  server->Set([](VllmContract& s) { s.asleep = true; });
  EXPECT_THAT(engine->Prepare(model.Step()), Fails(Code::kUnavailable, HasSubstr("asleep")));
  EXPECT_THAT(server->trace(), Not(Contains(HasSubstr("skerry_prepare"))));
  server->Fail("/is_sleeping", WireFault::kNoRoute, -1);
  EXPECT_THAT(Attach(*engine, model.boot()), Succeeds()) << "a server without sleep mode";
}

TEST_F(VllmTest, H11_SaysWhichTensorAWorkerDoesNotKnow) {
  Start(/*plugin=*/true, 2);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  server->Set([](VllmContract& s) { s.workers[1].error = "loaded 339 of 340: model.layers.3.mlp is missing"; });
  EXPECT_THAT(
      Move(*engine, model.Step()),
      Fails(Code::kIo, AllOf(HasSubstr("worker 1 of 2"), HasSubstr("339 of 340: model.layers.3.mlp is missing"))));
  EXPECT_TRUE(server->paused());
  EXPECT_EQ(Must(engine->Probe()).label, kUncertainLabel);
}

TEST_F(VllmTest, H14_SucceedsOnlyIfEveryWorkerVerified) {
  Start(/*plugin=*/true, 2);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  server->Set([](VllmContract& s) { s.workers[1].stays_behind = true; });
  const WeightUpdate update = model.Step();
  EXPECT_THAT(Move(*engine, update),
              Fails(Code::kMismatch, AllOf(HasSubstr("worker 1 of 2 is at 'old@1'"), HasSubstr(update.label))));
  server->Set([](VllmContract& s) {
    s.workers[1].stays_behind = false;
    s.answering_workers = 1;
  });
  EXPECT_THAT(engine->Prepare(update), Fails(Code::kMismatch, HasSubstr("1 of 2 workers answered")));
}

TEST_F(VllmTest, H15_ShowsWhyTheEngineRejectsTheWeights) {
  Start(/*plugin=*/false);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  server->Set([](VllmContract& s) { s.refusal = "expected Float8_e4m3fn, got BFloat16"; });
  EXPECT_THAT(Move(*engine, model.Step()),
              Fails(Code::kIo, AllOf(HasSubstr("500"), HasSubstr("expected Float8_e4m3fn, got BFloat16"))));
  EXPECT_EQ(Must(engine->Probe()).label, kUncertainLabel);
}

TEST_F(VllmTest, NoticesAPreparationThatFailsOrNeverEnds) {
  Start(/*plugin=*/true);
  ASSERT_THAT(Attach(*engine, model.boot()), Succeeds());
  WeightUpdate update = model.Step();
  update.checkpoint = "/nowhere";
  EXPECT_THAT(engine->Prepare(update), Fails(Code::kIo, HasSubstr("/nowhere")));
  EXPECT_THAT(engine->Prepare(model.Whole()), Succeeds());
}

}  // namespace
}  // namespace skerry
