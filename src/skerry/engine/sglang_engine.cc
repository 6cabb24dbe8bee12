#include "skerry/engine/sglang_engine.h"

#include "skerry/base/text.h"
#include "skerry/engine/model_traits.h"

namespace skerry {

Result<std::unique_ptr<Engine>> SglangEngine::Make(const std::string& address, const EngineOptions& options) {
  SKERRY_ASSIGN(EngineAddress parsed, ParseEngineAddress(address));
  return std::make_unique<SglangEngine>(std::move(parsed), options);
}

SglangEngine::SglangEngine(EngineAddress address, const EngineOptions& options)
    : address_(std::move(address)),
      api_("sglang", address_.url, options),
      checksums_(api_, "/weights_checker", address_.verify_checksum) {}

Result<EngineFacts> SglangEngine::Probe() {
  EngineFacts facts{.kind = "sglang", .paused = paused_};
  Result<nlohmann::json> info = api_.Get("/model_info");
  if (!info) {
    if (info.error().code == Code::kUnsupported) info.error().message += "; this SGLang is too old to name its weights";
    return tl::unexpected<Error>(std::move(info).error());
  }
  facts.model = TextField(*info, "model_path");
  facts.label = TextField(*info, "weight_version");
  SKERRY_ASSIGN(const auto server, api_.GetIfThere("/server_info"));
  device_ = server ? TextField(*server, "device") : "";
  if (server) {
    facts.version = TextField(*server, "version");
    const nlohmann::json size = server->value("tp_size", nlohmann::json());
    if (size.is_number_unsigned()) facts.workers = std::max<uint64_t>(1, size.get<uint64_t>());
  }
  SKERRY_ASSIGN(facts.instance, StartTimeFromMetrics(api_));
  return facts;
}

Status SglangEngine::Check(const Checkpoint& checkpoint) {
  if (address_.trust_reload || device_ != "cpu") return {};
  Result<ModelTraits> traits = TraitsOf(checkpoint);
  if (!traits) return Annotate(std::move(traits).error(), api_.name());
  for (const std::string* why : {&traits->experts, &traits->tied, &traits->quantised}) {
    if (why->empty()) continue;
    return Fail(
        Code::kUnsupported,
        "{}: SGLang on CPU packs weights at the first load, so that a reload of this model may be silently wrong "
        "({}); put ?reload=trust behind the engine's address where you know better",
        api_.name(), *why);
  }
  return {};
}

Status SglangEngine::Prepare(const WeightUpdate&) { return checksums_.BeforeLoad(); }

Status SglangEngine::PauseBy(const char* mode) { return api_.PostForStatus("/pause_generation", {{"mode", mode}}); }

Status SglangEngine::Pause(PausePolicy policy) {
  if (policy == PausePolicy::kDrain) {
    return Fail(Code::kUnsupported, "{}: SGLang has no pause that lets requests finish; use in-place or abort",
                api_.name());
  }
  SKERRY_TRY(PauseBy(policy == PausePolicy::kAbort ? "abort" : "in_place"));
  paused_ = true;
  in_place_ = policy == PausePolicy::kInPlace;
  return {};
}

Status SglangEngine::SetLabel(std::string_view label) {
  SKERRY_TRY(api_.Post("/update_weight_version", {{"new_version", label}, {"abort_all_requests", false}}));
  return {};
}

Status SglangEngine::Load(const WeightUpdate& update) {
  constexpr const char* kRoute = "/update_weights_from_disk";
  SKERRY_TRY(SetLabel(kUncertainLabel));
  SKERRY_ASSIGN(const nlohmann::json reply, api_.Post(kRoute,
                                                      {{"model_path", update.checkpoint.string()},
                                                       {"load_format", nullptr},
                                                       {"weight_version", update.label},
                                                       {"flush_cache", false},
                                                       {"abort_all_requests", false}},
                                                      api_.timeouts().load));
  if (BoolField(reply, "success") != true) {
    return api_.Complain(Code::kIo, "POST", kRoute, "the reply does not say \"success\": true");
  }
  return {};
}

Status SglangEngine::ResetCache() {
  Status flushed = api_.PostForStatus("/flush_cache");
  if (flushed || !in_place_) return flushed;
  if (flushed.error().code != Code::kIo) return flushed;
  SKERRY_TRY(PauseBy("retract"));
  return api_.PostForStatus("/flush_cache");
}

Status SglangEngine::Verify(const WeightUpdate& update) {
  SKERRY_ASSIGN(const nlohmann::json info, api_.Get("/model_info"));
  if (const std::string label = TextField(info, "weight_version"); label != update.label) {
    return api_.Complain(Code::kMismatch, "GET", "/model_info",
                         fmt::format("the engine serves '{}', not '{}'", Printable(label), update.label));
  }
  return checksums_.AfterLoad(update.model);
}

Status SglangEngine::Resume() {
  SKERRY_TRY(api_.PostForStatus("/continue_generation"));
  paused_ = false;
  return {};
}

}  // namespace skerry
