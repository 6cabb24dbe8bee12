#include "skerry/engine/engine.h"

#include <algorithm>

#include "skerry/base/text.h"
#include "skerry/engine/engine_address.h"
#include "skerry/engine/exec_engine.h"
#include "skerry/engine/none_engine.h"
#include "skerry/engine/sglang_engine.h"
#include "skerry/engine/vllm_engine.h"
#include "skerry/engine/webhook_engine.h"

namespace skerry {
namespace {

// "vllm=URL" taken apart; no address where there is no '='.
struct Parts {
  std::string kind;
  std::optional<std::string> address;
};

Parts PartsOf(const std::string& specification) {
  const size_t equals = specification.find('=');
  if (equals == std::string::npos) return {specification, std::nullopt};
  return {specification.substr(0, equals), specification.substr(equals + 1)};
}

}  // namespace

Result<std::unique_ptr<Engine>> MakeEngine(const std::string& specification, const EngineOptions& options) {
  const auto [kind, given] = PartsOf(specification);
  const std::string address = given.value_or("");
  if (kind == "none" && !given) return std::make_unique<NoneEngine>();
  if (kind == "exec" && !address.empty()) return std::make_unique<ExecEngine>(address, options);
  if (kind == "webhook") return WebhookEngine::Make(address, options);
  if (kind == "vllm") return VllmEngine::Make(address, options);
  if (kind == "sglang") return SglangEngine::Make(address, options);
  // What stands behind '=' may hold a secret.
  return Fail(Code::kInvalid, "engine '{}': expected vllm=URL, sglang=URL, exec=COMMAND, webhook=URL or none",
              Printable(kind));
}

std::string EngineIdentity(const std::string& specification) {
  const auto [kind, address] = PartsOf(specification);
  if (kind == "webhook") return kind + "=" + NormalHttpUrl(address.value_or(""));
  if (kind != "vllm" && kind != "sglang") return specification;
  const auto parsed = ParseEngineAddress(address.value_or(""));
  if (!parsed) return specification;
  // A user and password, which may hold any number of '@', end with the last one before the path.
  const size_t begin = parsed->url.find("://") + 3;
  const size_t end = std::min(parsed->url.find('/', begin), parsed->url.size());
  const size_t user = parsed->url.substr(0, end).rfind('@');
  return user == std::string::npos ? parsed->url : parsed->url.substr(0, begin) + parsed->url.substr(user + 1);
}

}  // namespace skerry
