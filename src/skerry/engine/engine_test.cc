#include "skerry/engine/engine.h"

#include "skerry/engine/control_api.h"
#include "skerry/engine/engine_address.h"
#include "skerry/engine/model_traits.h"
#include "skerry/engine/updates_testing.h"
#include "tests/testing/http_server.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(MakeEngine, MakesEachKindAndNamesItWithoutSecrets) {
  const auto described = [](const std::string& specification) {
    return Must(MakeEngine(specification, {}))->Describe();
  };
  EXPECT_EQ(described("vllm=http://me:SECRET@127.0.0.1:8000/?reload=trust&verify=checksum"),
            "vllm http://127.0.0.1:8000");
  EXPECT_EQ(described("sglang=https://host:30000/"), "sglang https://host:30000");
  EXPECT_EQ(described("exec=/opt/switch --token SECRET"), "exec /opt/switch");
  EXPECT_EQ(described("webhook=http://me:SECRET@host/hook?key=SECRET"), "webhook http://host/hook");
  EXPECT_EQ(described("none"), "none");
}

TEST(MakeEngine, RefusesWhatItDoesNotKnow) {
  for (const std::string specification :
       {"", "vllm", "vllm=", "vllm=127.0.0.1:8000", "vllm=ftp://host", "vllm=http://", "vllm=http:///x", "none=1",
        "exec=", "webhook=", "triton=http://host", "sglang=http://host?reload=maybe", "vllm=http://host?token=SECRET",
        "vllm=http://a b"}) {
    EXPECT_THAT(MakeEngine(specification, {}), Fails(Code::kInvalid, Not(HasSubstr("SECRET")))) << specification;
  }
  EXPECT_THAT(MakeEngine("vllm=http://host?reload=maybe", {}), Fails(Code::kInvalid, HasSubstr("reload=trust")));
}

TEST(EngineAddress, HasOneFormHoweverItIsWritten) {
  const auto url = [](const std::string& text) { return Must(ParseEngineAddress(text)).url; };
  for (const char* text : {"http://h", "http://h/", "http://h//", "HTTP://H", "http://h:80", "http://h:80/",
                           "http://h:", "Http://H:80?reload=trust"}) {
    EXPECT_EQ(url(text), "http://h") << text;
  }
  EXPECT_EQ(url("https://H:443/Engine/"), "https://h/Engine") << "a path's letters count";
  EXPECT_EQ(url("https://h:80"), "https://h:80") << "another scheme's port";
  EXPECT_EQ(url("http://h:8000/"), "http://h:8000");
  EXPECT_EQ(url("http://Me:P@SS@H:80/x"), "http://Me:P@SS@h/x") << "a password's letters count";
  EXPECT_EQ(url("http://[2001:DB8::80]"), "http://[2001:db8::80]");
  EXPECT_EQ(url("http://[::1]:80"), "http://[::1]");
}

TEST(EngineIdentity, IsThatOfTheServerThatIsMeant) {
  for (const char* same :
       {"vllm=http://h:1", "vllm=http://h:1/", "vllm=HTTP://H:1", "vllm=http://h:1?reload=trust", "sglang=http://h:1",
        "vllm=http://me:SECRET@h:1", "vllm=http://me:a@b@h:1//?verify=checksum"}) {
    EXPECT_EQ(EngineIdentity(same), "http://h:1") << same;
  }
  EXPECT_NE(EngineIdentity("vllm=http://h:1"), EngineIdentity("vllm=http://h:2"));
  EXPECT_NE(EngineIdentity("vllm=http://h:1"), EngineIdentity("vllm=https://h:1"));
  EXPECT_NE(EngineIdentity("vllm=http://h:1/a"), EngineIdentity("vllm=http://h:1/b"));
  EXPECT_EQ(EngineIdentity("webhook=http://H:80/hook?a=B"), EngineIdentity("webhook=http://h/hook?a=B"));
  EXPECT_NE(EngineIdentity("webhook=http://h/hook?a=B"), EngineIdentity("webhook=http://h/hook?a=b"));
  EXPECT_NE(EngineIdentity("exec=switch 1"), EngineIdentity("exec=switch 2"));
  EXPECT_EQ(EngineIdentity("none"), EngineIdentity("none"));
}

TEST(WeightLabels, ReadBackWhatTheyAreMadeOf) {
  const auto label = ParseWeightLabel(WeightLabel(RunId::Parse("grpo-1").value(), Version(7)));
  ASSERT_TRUE(label.has_value());
  EXPECT_EQ(label->run, "grpo-1");
  EXPECT_EQ(label->version, Version(7));
  for (const std::string_view other : {std::string_view(), std::string_view("default"), kUncertainLabel,
                                       std::string_view("a@b"), std::string_view("@7"), std::string_view("a@@7")}) {
    EXPECT_EQ(ParseWeightLabel(other), std::nullopt) << other;
  }
}

TEST(ControlApi, ShowsTheStartOfABodyInPrintableForm) {
  HttpServer server({Answer(500, "bad\r\n\033[2J" + std::string(5000, 'x'))});
  ControlApi api("kind", server.url(), {});
  const auto reply = api.Get("/route?key=SECRET");
  ASSERT_THAT(reply,
              Fails(Code::kIo, AllOf(HasSubstr("kind http://127.0.0.1:"), HasSubstr("GET /route:"), HasSubstr("500"),
                                     HasSubstr("bad\\x0d\\x0a\\x1b[2J"), Not(HasSubstr("SECRET")))));
  EXPECT_LT(reply.error().message.size(), 600u);
}

TEST(ControlApi, SendsAWeightCallOnceThoughTheConnectionBreaks) {
  HttpServer server(std::vector<WireAnswer>{Answer(200, "{}"), {"", WireAnswer::Then::kReset}});
  ControlApi api("kind", server.url(), {});
  ASSERT_THAT(api.Post("/load"), Succeeds());
  EXPECT_THAT(api.Post("/load"), Fails(Code::kUnavailable));
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(ControlApi, RefusesToSendNamesThatJsonCannotHold) {
  HttpServer server(std::vector<WireAnswer>{});
  ControlApi api("kind", server.url(), {});
  EXPECT_THAT(api.Post("/load", {{"path", "/a\xff"}}), Fails(Code::kInvalid, HasSubstr("UTF-8")));
  EXPECT_TRUE(server.requests().empty());
}

TEST(ControlApi, TakesNoAnswerForSuccessThatSaysNothing) {
  HttpServer server({Answer(200, "[]"), Answer(200, "null"), Answer(200, "{"), Answer(200, R"({"success": false})"),
                     Answer(202, "{}"), Answer(200, R"({"success": true})")});
  ControlApi api("kind", server.url(), {});
  for (int i = 0; i < 5; ++i) EXPECT_THAT(api.Post("/x"), Fails(Code::kIo)) << i;
  EXPECT_THAT(api.Post("/x"), Succeeds());
}

TEST(ModelTraits, SeeExpertsInTheNamesOfTensors) {
  Random random(1);
  TestModel model;
  model.tensors.push_back(RandomTensor("model.layers.0.mlp.experts.3.up_proj.weight", DType::kBF16, {4}, random));
  model.tensors.push_back(RandomTensor("lm_head.weight", DType::kBF16, {4}, random));
  model.side_files["config.json"] = "{}";
  TempDir home;
  WriteCheckpoint(model, home / "m");
  const ModelTraits traits = Must(TraitsOf(Must(Checkpoint::Open(home / "m"))));
  EXPECT_THAT(traits.experts, HasSubstr("model.layers.0.mlp.experts.3"));
  EXPECT_EQ(traits.tied, "") << "there is an lm_head";
  EXPECT_EQ(traits.quantised, "");
}

TEST(ModelTraits, WantAConfigThatCanBeRead) {
  const auto traits_with = [](const std::string& config) {
    return TraitsOf(Must(Checkpoint::Open(MovingModel(config).boot())));
  };
  EXPECT_THAT(traits_with("[1]"), Fails(Code::kCorrupt));
  EXPECT_THAT(traits_with("{"), Fails(Code::kCorrupt));
}

}  // namespace
}  // namespace skerry
