#include "skerry/absorb/tensor_kind.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace skerry {
namespace {

TEST(TensorKindTest, TellsByTheNamesOfCommonModels) {
  const std::vector<std::pair<std::string_view, TensorKind>> names = {
      {"model.embed_tokens.weight", TensorKind::kEmbedding},
      {"lm_head.weight", TensorKind::kEmbedding},
      {"transformer.wte.weight", TensorKind::kEmbedding},
      {"model.layers.3.self_attn.q_proj.weight", TensorKind::kAttention},
      {"transformer.h.0.attn.c_attn.bias", TensorKind::kAttention},
      {"model.layers.3.self_attn.q_norm.weight", TensorKind::kNorm},
      {"model.layers.0.input_layernorm.weight", TensorKind::kNorm},
      {"transformer.h.0.ln_1.weight", TensorKind::kNorm},
      {"model.norm.weight", TensorKind::kNorm},
      {"model.layers.3.mlp.gate_proj.weight", TensorKind::kMlp},
      {"model.layers.3.feed_forward.w1.weight", TensorKind::kMlp},
      {"model.layers.3.mlp.gate.weight", TensorKind::kRouter},
      {"model.layers.3.block_sparse_moe.gate.weight", TensorKind::kRouter},
      {"model.layers.3.mlp.router.weight", TensorKind::kRouter},
      {"model.layers.3.mlp.shared_expert_gate.weight", TensorKind::kRouter},
      {"model.layers.3.mlp.experts.17.down_proj.weight", TensorKind::kExperts},
      {"model.layers.3.mlp.experts.gate_up_proj", TensorKind::kExperts},
      {"model.layers.3.mlp.shared_expert.up_proj.weight", TensorKind::kExperts},
      {"visual.merger.weight", TensorKind::kOther},
      {"", TensorKind::kOther},
  };
  for (const auto& [name, kind] : names) EXPECT_EQ(TensorKindName(KindOf(name)), TensorKindName(kind)) << name;
}

TEST(TensorKindTest, QuantisesWeightsOfLinearLayersOnly) {
  const std::vector<uint64_t> matrix = {8, 16}, vector = {8}, stack = {4, 8, 16}, none = {0, 16};
  EXPECT_TRUE(IsQuantised("model.layers.3.mlp.gate_proj.weight", matrix));
  EXPECT_TRUE(IsQuantised("model.layers.3.mlp.experts.17.down_proj.weight", matrix));
  EXPECT_FALSE(IsQuantised("model.layers.3.mlp.gate_proj.bias", matrix));
  EXPECT_FALSE(IsQuantised("model.layers.3.mlp.gate_proj.weight", vector));
  EXPECT_FALSE(IsQuantised("model.layers.3.mlp.gate_proj.weight", none));
  EXPECT_FALSE(IsQuantised("model.layers.3.mlp.experts.gate_up_proj", stack));
  EXPECT_FALSE(IsQuantised("model.layers.3.mlp.gate.weight", matrix));
  EXPECT_FALSE(IsQuantised("model.embed_tokens.weight", matrix));
  EXPECT_FALSE(IsQuantised("transformer.wpe.weight", matrix));
  EXPECT_FALSE(IsQuantised("lm_head.weight", matrix));
}

}  // namespace
}  // namespace skerry
