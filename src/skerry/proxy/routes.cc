#include "skerry/proxy/routes.h"

#include <algorithm>
#include <array>
#include <string>

namespace skerry {
namespace {

// Segments of paths that act on an engine, or show its weights or its keys. Sorted.
constexpr auto kControlNames = std::to_array<std::string_view>({
    "abort_request",
    "abort_requests",
    "adapters",  // vLLM on SageMaker: loads and unloads LoRA adapters
    "add_external_corpus",
    "clear_hicache_storage_backend",
    "collective_rpc",
    "configure_logging",
    "continue_generation",
    "dump_expert_distribution_record",
    "dumper",
    "fault_tolerance",
    "finish_weight_update",
    "flush_cache",
    "freeze_gc",
    "get_remote_instance_transfer_engine_info",  // from here on, whoever asks may read the weights' memory
    "get_server_args",
    "get_server_info",  // SGLang: all arguments, API keys among them
    "get_weights_by_name",
    "hicache",
    "list_external_corpora",
    "load_lora_adapter",
    "load_lora_adapter_from_tensors",
    "pause",
    "pause_generation",
    "post_process_weights",
    "release_kv_cache_memory",
    "release_memory_occupation",
    "remote_instance_transfer_engine_info",
    "remove_external_corpus",
    "resume",
    "resume_memory_occupation",
    "scale_elastic_ep",
    "server_info",
    "set_internal_state",
    "set_trace_level",
    "shutdown_weight_transfer_engine",
    "sleep",
    "slow_down",
    "start_draft_weight_update",
    "start_expert_distribution_record",
    "start_profile",
    "start_weight_update",
    "stop_expert_distribution_record",
    "stop_profile",
    "unload_lora_adapter",
    "wake_up",
    "weight_checker",
    "weights_checker",
});
static_assert(std::is_sorted(kControlNames.begin(), kControlNames.end()));

// Families of them that grow from release to release.
constexpr auto kControlPrefixes = std::to_array<std::string_view>({
    "destroy_weight",
    "init_weight",
    "reset_",
    "send_weight",
    "update_weight",
});

constexpr auto kGenerationPaths = std::to_array<std::string_view>({
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/generate",
    "/inference/v1/generate",
    "/v1/embeddings",
    "/pooling",
    "/score",
    "/rerank",
    "/v1/score",
    "/v1/rerank",
    "/classify",
});

constexpr auto kSaltedOpenAiPaths = std::to_array<std::string_view>({
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
});

bool IsOneOf(std::string_view text, const auto& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What is left when escapes are decoded until there are none, in one pass: a byte that was decoded may end another
// escape.
std::string WithoutEscapes(std::string_view path) {
  std::string out;
  for (const char c : path) {
    out += c;
    while (out.size() >= 3 && out[out.size() - 3] == '%') {
      const int high = HexDigit(out[out.size() - 2]), low = HexDigit(out.back());
      if (high < 0 || low < 0) break;
      out.resize(out.size() - 3);
      out += static_cast<char>(high * 16 + low);
    }
  }
  return out;
}

bool IsControlSegment(std::string_view segment) {
  return std::binary_search(kControlNames.begin(), kControlNames.end(), segment) ||
         std::any_of(kControlPrefixes.begin(), kControlPrefixes.end(),
                     [&](std::string_view prefix) { return segment.starts_with(prefix); });
}

// Whether any segment of the path is a control name. That needs no rules for "..", a prefix that the engine strips
// (vLLM's
// --root-path) or what stands behind the name; no route of an engine that anybody else may call has such a segment.
bool IsControl(std::string_view path) {
  std::string segment;
  for (const char c : WithoutEscapes(path)) {
    if (c == '/' || c == '\\' || c == '?' || c == '#' || c == ';') {
      if (IsControlSegment(segment)) return true;
      segment.clear();
    } else if (static_cast<unsigned char>(c) > ' ' && c != '\x7F') {
      // Starlette takes "/pause\n" for "/pause", and others drop such bytes too.
      segment += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return IsControlSegment(segment);
}

}  // namespace

RouteFacts FactsOf(std::string_view method, std::string_view path) {
  return {.is_control = IsControl(path), .is_generation = method == "POST" && IsOneOf(path, kGenerationPaths)};
}

SaltMember SaltMemberOf(std::string_view engine_kind, std::string_view path) {
  const bool is_vllm = engine_kind == "vllm", is_sglang = engine_kind == "sglang";
  if ((is_vllm || is_sglang) && IsOneOf(path, kSaltedOpenAiPaths)) return SaltMember::kCacheSalt;
  if (is_vllm && path == "/inference/v1/generate") return SaltMember::kCacheSalt;
  if (is_sglang && path == "/generate") return SaltMember::kExtraKey;
  return SaltMember::kNone;
}

}  // namespace skerry
