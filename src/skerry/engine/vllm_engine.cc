#include "skerry/engine/vllm_engine.h"

#include "skerry/base/text.h"
#include "skerry/engine/model_traits.h"

namespace skerry {
namespace {

constexpr std::string_view kWithPlugin =
    "start vLLM with Skerry's plugin: --weight-transfer-config '{\"backend\":\"skerry\"}' --worker-extension-cls "
    "skerry.vllm.WorkerExtension";
constexpr std::string_view kWithControl = "start vLLM with VLLM_SERVER_DEV_MODE=1 in its environment";

// The same error, with what to do about a route that is not there.
tl::unexpected<Error> WithRemedy(Error error, std::string_view remedy) {
  if (error.code == Code::kUnsupported) error.message += fmt::format("; {}", remedy);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Result<std::unique_ptr<Engine>> VllmEngine::Make(const std::string& address, const EngineOptions& options) {
  SKERRY_ASSIGN(EngineAddress parsed, ParseEngineAddress(address));
  return std::make_unique<VllmEngine>(std::move(parsed), options);
}

VllmEngine::VllmEngine(EngineAddress address, const EngineOptions& options, Waiting waiting)
    : address_(std::move(address)),
      api_("vllm", address_.url, options),
      plugin_(api_, std::move(waiting)),
      checksums_(api_, "/weight_checker", address_.verify_checksum) {}

Result<EngineFacts> VllmEngine::Probe() {
  EngineFacts facts{.kind = "vllm"};
  SKERRY_ASSIGN(const nlohmann::json version, api_.Get("/version"));
  facts.version = TextField(version, "version");
  Result<nlohmann::json> paused = api_.Get("/is_paused");
  if (!paused) return WithRemedy(std::move(paused).error(), kWithControl);
  facts.paused = BoolField(*paused, "is_paused").value_or(false);
  SKERRY_ASSIGN(facts.label, Label());
  SKERRY_ASSIGN(const auto sleeping, api_.GetIfThere("/is_sleeping"));
  facts.asleep = sleeping && BoolField(*sleeping, "is_sleeping").value_or(false);
  SKERRY_ASSIGN(const auto world, api_.GetIfThere("/get_world_size"));
  if (world && world->value("world_size", nlohmann::json()).is_number_unsigned()) {
    workers_ = facts.workers = std::max<uint64_t>(1, (*world)["world_size"].get<uint64_t>());
  }
  if (const auto models = api_.Get("/v1/models");
      models && models->contains("data") && (*models)["data"].is_array() && !(*models)["data"].empty()) {
    const nlohmann::json& model = (*models)["data"][0];
    facts.model = TextField(model, "root").empty() ? TextField(model, "id") : TextField(model, "root");
  }
  SKERRY_ASSIGN(facts.instance, StartTimeFromMetrics(api_));
  // The workers of an engine that is asleep are not asked: what they would look at may be gone.
  const bool same = facts.instance == instance_ && !facts.instance.empty();
  if (!facts.asleep && !(same && way_ == Way::kReload)) {
    SKERRY_ASSIGN(const std::optional<PluginStatus> plugin, plugin_.Status(workers_));
    way_ = plugin ? Way::kPlugin : Way::kReload;
    unsupported_ = plugin ? plugin->unsupported : "";
    // Workers that nobody has moved have no label, whatever the engine calls its boot weights.
    const bool booted = plugin && plugin->label.empty() && !ParseWeightLabel(facts.label);
    if (plugin && plugin->label != facts.label && !booted) facts.label = kUncertainLabel;
    if (plugin) workers_instance_ = plugin->instance;
  }
  instance_ = facts.instance;
  if (way_ == Way::kPlugin) facts.instance += "/" + workers_instance_;
  return facts;
}

Result<std::string> VllmEngine::Label() {
  Result<nlohmann::json> info = api_.Get("/weight_info");
  if (!info) return WithRemedy(std::move(info).error(), "this vLLM can't name its weights: use 0.32 or newer");
  return TextField(*info, "weight_version");
}

Status VllmEngine::SetLabel(std::string_view label) {
  SKERRY_TRY(api_.Post("/update_weight_version", {{"new_version", label}}));
  return {};
}

Status VllmEngine::Check(const Checkpoint& checkpoint) {
  checked_ = Way::kUnknown;
  if (way_ == Way::kUnknown)
    return Fail(Code::kUnsupported, "{}: it was asleep when it was probed; wake it first", api_.name());
  if (way_ == Way::kPlugin && !unsupported_.empty()) {
    return Fail(Code::kUnsupported, "{}: Skerry's plugin can't move this model: {}", api_.name(), unsupported_);
  }
  if (way_ == Way::kReload) SKERRY_TRY(CheckReload(checkpoint));
  checked_ = way_;
  return {};
}

Status VllmEngine::CheckReload(const Checkpoint& checkpoint) {
  if (address_.trust_reload) return {};
  Result<ModelTraits> traits = TraitsOf(checkpoint);
  if (!traits) return Annotate(std::move(traits).error(), api_.name());
  std::string why;
  if (!traits->quantised.empty())
    why = fmt::format("quantised weights are packed at the first load ({})", traits->quantised);
  if (!traits->tied.empty()) why = fmt::format("a tied lm_head may keep its old weights ({})", traits->tied);
  if (!traits->experts.empty()) why = fmt::format("experts are packed at the first load only ({})", traits->experts);
  if (why.empty()) return {};
  const std::string device = Device();
  if (traits->quantised.empty() && !device.empty() && device != "cpu") return {};
  return Fail(Code::kUnsupported,
              "{}: vLLM's own reload can be silently wrong for this model: {}; {}; or put ?reload=trust behind the "
              "engine's address where you know better",
              api_.name(), why, kWithPlugin);
}

std::string VllmEngine::Device() {
  // The server collects this in several seconds, once.
  const auto info = api_.GetIfThere("/server_info?config_format=json", api_.timeouts().load);
  if (!info || !*info) return "";
  const nlohmann::json config = (*info)->value("vllm_config", nlohmann::json());
  if (!config.is_object()) return "";
  return TextField(config.value("device_config", nlohmann::json()), "device_type");
}

Status VllmEngine::RequireChecked() const {
  if (checked_ == Way::kUnknown) {
    return Fail(Code::kUnsupported, "{}: no check has found yet that it can be moved", api_.name());
  }
  if (way_ == checked_) return {};
  return Fail(Code::kUnsupported, "{}: it runs {} Skerry's plugin, unlike when it was checked; check it again",
              api_.name(), way_ == Way::kPlugin ? "with" : "without");
}

Status VllmEngine::Prepare(const WeightUpdate& update) {
  SKERRY_TRY(RequireChecked());
  SKERRY_ASSIGN(const auto sleeping, api_.GetIfThere("/is_sleeping"));
  if (sleeping && BoolField(*sleeping, "is_sleeping") == true) {
    return api_.Complain(Code::kUnavailable, "GET", "/is_sleeping",
                         "the engine is asleep and takes no weights; wake it first");
  }
  if (way_ == Way::kPlugin) return plugin_.Prepare(update, workers_);
  return checksums_.BeforeLoad();
}

Status VllmEngine::Pause(PausePolicy policy) {
  const bool drain = policy == PausePolicy::kDrain;
  const char* mode = drain ? "wait" : policy == PausePolicy::kAbort ? "abort" : "keep";
  SKERRY_ASSIGN(const nlohmann::json reply, api_.Post(fmt::format("/pause?mode={}", mode), nullptr,
                                                      drain ? api_.timeouts().drain : api_.timeouts().control));
  if (const std::string status = TextField(reply, "status"); status != "paused") {
    return api_.Complain(Code::kIo, "POST", "/pause",
                         fmt::format("the engine is '{}', not 'paused'", Printable(status)));
  }
  return {};
}

Status VllmEngine::Load(const WeightUpdate& update) {
  SKERRY_TRY(RequireChecked());
  if (way_ == Way::kPlugin) {
    SKERRY_TRY(plugin_.Commit(update, workers_));
  } else {
    SKERRY_TRY(SetLabel(kUncertainLabel));
    SKERRY_TRY(Reload(update));
  }
  return SetLabel(update.label);
}

Status VllmEngine::Reload(const WeightUpdate& update) {
  constexpr const char* kRoute = "/collective_rpc";
  SKERRY_ASSIGN(
      const nlohmann::json reply,
      api_.Post(kRoute, {{"method", "reload_weights"}, {"kwargs", {{"weights_path", update.checkpoint.string()}}}},
                api_.timeouts().load));
  const nlohmann::json results = reply.value("results", nlohmann::json());
  if (!results.is_array() || results.size() != workers_) {
    return api_.Complain(
        Code::kMismatch, "POST", kRoute,
        fmt::format("reload_weights: {} of {} workers answered", results.is_array() ? results.size() : 0, workers_));
  }
  for (const nlohmann::json& result : results) {
    if (!result.is_null()) {
      const std::string text = result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      return api_.Complain(Code::kIo, "POST", kRoute,
                           fmt::format("reload_weights: a worker answered {}, not null",
                                       Printable(std::string_view(text).substr(0, ControlApi::kShownBody))));
    }
  }
  return {};
}

Status VllmEngine::ResetCache() {
  // Blocks of requests that keep their place can't be given up while they run: those are computed again.
  SKERRY_ASSIGN(const nlohmann::json reply, api_.Post("/reset_prefix_cache?reset_running_requests=true"));
  if (BoolField(reply, "success") != true) {
    return api_.Complain(Code::kIo, "POST", "/reset_prefix_cache", "the reply does not say \"success\": true");
  }
  Status encoder = api_.PostForStatus("/reset_encoder_cache");
  if (!encoder && encoder.error().code == Code::kUnsupported) return {};
  return encoder;
}

Status VllmEngine::Verify(const WeightUpdate& update) {
  SKERRY_ASSIGN(const std::string label, Label());
  if (label != update.label) {
    return api_.Complain(Code::kMismatch, "GET", "/weight_info",
                         fmt::format("the engine serves '{}', not '{}'", Printable(label), update.label));
  }
  if (way_ == Way::kPlugin) return plugin_.Verify(update, workers_);
  return checksums_.AfterLoad(update.model);
}

Status VllmEngine::Resume() {
  SKERRY_ASSIGN(const nlohmann::json reply, api_.Post("/resume"));
  if (const std::string status = TextField(reply, "status"); status != "resumed") {
    return api_.Complain(Code::kIo, "POST", "/resume",
                         fmt::format("the engine is '{}', not 'resumed'", Printable(status)));
  }
  return {};
}

}  // namespace skerry
