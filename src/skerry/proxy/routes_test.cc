#include "skerry/proxy/routes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace skerry {
namespace {

bool IsControl(std::string_view path, std::string_view method = "POST") { return FactsOf(method, path).is_control; }

TEST(Routes, ThatActOnTheEngineAreControl) {
  for (const char* path : {"/pause",
                           "/resume",
                           "/sleep",
                           "/wake_up",
                           "/collective_rpc",
                           "/scale_elastic_ep",
                           "/reset_prefix_cache",
                           "/reset_mm_cache",
                           "/reset_encoder_cache",
                           "/release_kv_cache_memory",
                           "/init_weight_transfer_engine",
                           "/shutdown_weight_transfer_engine",
                           "/start_weight_update",
                           "/start_draft_weight_update",
                           "/update_weights",
                           "/finish_weight_update",
                           "/update_weight_version",
                           "/weight_checker",
                           "/abort_requests",
                           "/inference/v1/abort_requests",
                           "/v1/load_lora_adapter",
                           "/v1/unload_lora_adapter",
                           "/adapters",
                           "/adapters/a",
                           "/start_profile",
                           "/stop_profile",
                           "/server_info",
                           "/fault_tolerance/apply",
                           "/update_weights_from_disk",
                           "/update_weights_from_tensor",
                           "/update_weights_from_distributed",
                           "/update_weights_from_ipc",
                           "/init_weights_update_group",
                           "/destroy_weights_update_group",
                           "/init_weights_send_group_for_remote_instance",
                           "/send_weights_to_remote_instance",
                           "/remote_instance_transfer_engine_info",
                           "/pause_generation",
                           "/continue_generation",
                           "/flush_cache",
                           "/release_memory_occupation",
                           "/resume_memory_occupation",
                           "/weights_checker",
                           "/load_lora_adapter",
                           "/load_lora_adapter_from_tensors",
                           "/unload_lora_adapter",
                           "/start_expert_distribution_record",
                           "/stop_expert_distribution_record",
                           "/dump_expert_distribution_record",
                           "/set_internal_state",
                           "/set_trace_level",
                           "/configure_logging",
                           "/freeze_gc",
                           "/slow_down",
                           "/abort_request",
                           "/clear_hicache_storage_backend",
                           "/hicache/storage-backend",
                           "/hicache/storage-backend/clear",
                           "/get_weights_by_name",
                           "/get_server_info",
                           "/add_external_corpus",
                           "/dumper/x"}) {
    EXPECT_TRUE(IsControl(path)) << path;
    EXPECT_TRUE(IsControl(path, "GET")) << path;
  }
}

TEST(Routes, ThatAnswerOrOnlyTellAreOpen) {
  for (const char* path : {"/",
                           "*",
                           "",
                           "/v1/completions",
                           "/v1/chat/completions",
                           "/v1/responses",
                           "/v1/responses/resp_1/cancel",
                           "/v1/messages",
                           "/generate",
                           "/inference/v1/generate",
                           "/v1/embeddings",
                           "/v1/models",
                           "/v1/models/a/b",
                           "/version",
                           "/health",
                           "/health_generate",
                           "/ping",
                           "/invocations",
                           "/load",
                           "/get_load",
                           "/v1/loads",
                           "/is_paused",
                           "/is_sleeping",
                           "/is_scaling_elastic_ep",
                           "/weight_info",
                           "/model_info",
                           "/get_model_info",
                           "/get_world_size",
                           "/tokenize",
                           "/detokenize",
                           "/tokenizer_info",
                           "/docs",
                           "/openapi.json",
                           "/parse_function_call",
                           "/separate_reasoning",
                           "/open_session",
                           "/close_session",
                           "/encode",
                           "/v1/audio/transcriptions",
                           "/paused",
                           "/pause2",
                           "/sleepy",
                           "/resumes"}) {
    EXPECT_FALSE(IsControl(path)) << path;
    EXPECT_FALSE(IsControl(path, "GET")) << path;
  }
}

TEST(Routes, ControlIsFoundHoweverThePathIsWritten) {
  for (const char* path : {"//pause",       "/pause/",        "/pause//",
                           "/./pause",      "/pause/.",       "/a/../pause",
                           "/pause/..",     "/PAUSE",         "/Pause_Generation",
                           "/prefix/pause", "\\pause",        "/a\\..\\pause",
                           "/pause\n",      "/pause\r\n",     "/pause ",
                           "/pau\tse",      "/\x01pause\x7F", "pause",
                           "/pause;x=1",    "/pause?x",       "/pause#x",
                           "/x?/../pause",  "http://h/pause", "/%70ause",
                           "/%2570ause",    "/%25%37%30ause", "/%252525252570ause",
                           "/%2fpause",     "/pause%2f",      "/pause%0a",
                           "/pause%00",     "/%%37%30ause",   "/%PAUSE/pause"}) {
    EXPECT_TRUE(IsControl(path)) << testing::PrintToString(path);
  }
  EXPECT_FALSE(IsControl("/%zzpause"));
  EXPECT_FALSE(IsControl("/paus%6"));
}

// `path` with some of its bytes written as escapes, whose own bytes are treated so again.
std::string Escaped(std::string_view path, const std::vector<bool>& choices, size_t& at, int depth) {
  std::string out;
  for (const char c : path) {
    const bool plain = depth == 0 || at >= choices.size() || !choices[at++];
    out += plain ? std::string(1, c)
                 : Escaped(fmt::format("%{:02x}", static_cast<unsigned char>(c)), choices, at, depth - 1);
  }
  return out;
}

RC_GTEST_PROP(Routes, ControlIsFoundBehindAnyDepthOfEscapes, (const std::vector<bool>& choices)) {
  size_t at = 0;
  const std::string path = Escaped("/a/flush_cache", choices, at, 5);
  RC_LOG() << path << "\n";
  RC_ASSERT(IsControl(path));
}

TEST(Routes, ThatGenerateAreThoseByPostAlone) {
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/generate",
                           "/inference/v1/generate", "/v1/embeddings", "/pooling", "/score", "/rerank", "/v1/score",
                           "/v1/rerank", "/classify"}) {
    EXPECT_TRUE(FactsOf("POST", path).is_generation) << path;
    EXPECT_FALSE(FactsOf("GET", path).is_generation) << path;
    EXPECT_FALSE(FactsOf("post", path).is_generation) << path;
    EXPECT_FALSE(IsControl(path)) << path;
  }
  for (const char* path : {"/", "/v1/completions/", "/v1/models", "/tokenize", "/v1/responses/x", "/V1/completions"}) {
    EXPECT_FALSE(FactsOf("POST", path).is_generation) << path;
  }
}

TEST(Routes, KnowTheEnginesNameForASalt) {
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/responses"}) {
    EXPECT_EQ(SaltMemberOf("vllm", path), SaltMember::kCacheSalt) << path;
    EXPECT_EQ(SaltMemberOf("sglang", path), SaltMember::kCacheSalt) << path;
    EXPECT_EQ(SaltMemberOf("exec", path), SaltMember::kNone) << path;
  }
  EXPECT_EQ(SaltMemberOf("vllm", "/inference/v1/generate"), SaltMember::kCacheSalt);
  EXPECT_EQ(SaltMemberOf("sglang", "/inference/v1/generate"), SaltMember::kNone);
  EXPECT_EQ(SaltMemberOf("sglang", "/generate"), SaltMember::kExtraKey);
  EXPECT_EQ(SaltMemberOf("vllm", "/generate"), SaltMember::kNone);
  EXPECT_EQ(SaltMemberOf("vllm", "/v1/embeddings"), SaltMember::kNone);
}

}  // namespace
}  // namespace skerry
