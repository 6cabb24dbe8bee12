#include "skerry/engine/webhook_engine.h"

#include "skerry/engine/engine_address.h"

namespace skerry {

Result<std::unique_ptr<Engine>> WebhookEngine::Make(const std::string& url, const EngineOptions& options) {
  SKERRY_TRY(CheckHttpUrl(url));
  return std::make_unique<WebhookEngine>(url, options);
}

WebhookEngine::WebhookEngine(const std::string& url, const EngineOptions& options)
    : ToldEngine("webhook", fmt::format("webhook {}", UrlForMessages(url)), options.timeouts),
      api_("webhook", url, options) {}

Status WebhookEngine::Tell(const Phase& phase) {
  nlohmann::json body = {{"phase", phase.name}};
  if (!phase.pause.empty()) body["pause"] = phase.pause;
  if (phase.update != nullptr) {
    const std::optional<VersionLabel> weights = ParseWeightLabel(phase.update->label);
    body["run"] = weights ? weights->run : "";
    body["version"] = phase.update->version.number();
    body["label"] = phase.update->label;
    body["model"] = phase.update->model.Hex();
    body["checkpoint"] = phase.update->checkpoint.string();
  }
  return api_.PostForStatus("", body, phase.time);
}

}  // namespace skerry
