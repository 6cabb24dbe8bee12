#include "skerry/engine/engine.h"

#include "skerry/base/text.h"
#include "skerry/engine/exec_engine.h"
#include "skerry/engine/none_engine.h"
#include "skerry/engine/sglang_engine.h"
#include "skerry/engine/vllm_engine.h"
#include "skerry/engine/webhook_engine.h"

namespace skerry {

Result<std::unique_ptr<Engine>> MakeEngine(const std::string& specification, const EngineOptions& options) {
  const size_t equals = specification.find('=');
  const std::string kind = specification.substr(0, equals);
  const std::string address = equals == std::string::npos ? "" : specification.substr(equals + 1);
  if (kind == "none" && equals == std::string::npos) return std::make_unique<NoneEngine>();
  if (kind == "exec" && !address.empty()) return std::make_unique<ExecEngine>(address, options);
  if (kind == "webhook") return WebhookEngine::Make(address, options);
  if (kind == "vllm") return VllmEngine::Make(address, options);
  if (kind == "sglang") return SglangEngine::Make(address, options);
  // What stands behind '=' may hold a secret.
  return Fail(Code::kInvalid, "engine '{}': expected vllm=URL, sglang=URL, exec=COMMAND, webhook=URL or none",
              Printable(kind));
}

}  // namespace skerry
