#include "skerry/absorb/tensor_kind.h"

#include <algorithm>
#include <array>
#include <vector>

namespace skerry {
namespace {

std::vector<std::string_view> PartsOf(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

template <size_t kCount>
bool HasAny(std::string_view part, const std::array<std::string_view, kCount>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return part.find(word) != std::string_view::npos; });
}

template <size_t kCount>
bool IsAny(std::string_view part, const std::array<std::string_view, kCount>& words) {
  return std::find(words.begin(), words.end(), part) != words.end();
}

bool IsNorm(std::string_view part) { return HasAny(part, std::array<std::string_view, 2>{"norm", "ln_"}); }
bool IsEmbedding(std::string_view part) {
  return part.find("embed") != std::string_view::npos ||
         IsAny(part, std::array<std::string_view, 4>{"wte", "wpe", "lm_head", "output_layer"});
}
bool IsRouter(std::string_view part) {
  return IsAny(part, std::array<std::string_view, 3>{"gate", "router", "shared_expert_gate"});
}
bool IsExperts(std::string_view part) {
  return part.find("expert") != std::string_view::npos && part != "shared_expert_gate";
}
bool IsAttention(std::string_view part) {
  return HasAny(part, std::array<std::string_view, 2>{"attn", "attention"}) ||
         IsAny(part, std::array<std::string_view, 5>{"q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj"});
}
bool IsMlp(std::string_view part) {
  return part.find("mlp") != std::string_view::npos ||
         IsAny(part, std::array<std::string_view, 7>{"ffn", "feed_forward", "gate_proj", "up_proj", "down_proj", "fc1",
                                                     "fc2"});
}

}  // namespace

std::string_view TensorKindName(TensorKind kind) {
  switch (kind) {
    case TensorKind::kEmbedding: return "embedding";
    case TensorKind::kAttention: return "attention";
    case TensorKind::kMlp: return "MLP";
    case TensorKind::kNorm: return "norm";
    case TensorKind::kRouter: return "router";
    case TensorKind::kExperts: return "experts";
    case TensorKind::kOther: return "other";
  }
  return "";
}

TensorKind KindOf(std::string_view tensor) {
  const std::vector<std::string_view> parts = PartsOf(tensor);
  const auto any = [&](bool (*is)(std::string_view)) { return std::any_of(parts.begin(), parts.end(), is); };
  // From what tells most: "mlp.experts.3.gate_proj" is of experts, "self_attn.q_norm" is a norm.
  if (any(IsNorm)) return TensorKind::kNorm;
  if (any(IsRouter)) return TensorKind::kRouter;
  if (any(IsExperts)) return TensorKind::kExperts;
  if (any(IsEmbedding)) return TensorKind::kEmbedding;
  if (any(IsAttention)) return TensorKind::kAttention;
  if (any(IsMlp)) return TensorKind::kMlp;
  return TensorKind::kOther;
}

bool IsQuantised(std::string_view tensor, std::span<const uint64_t> shape) {
  if (shape.size() != 2 || shape[0] == 0 || shape[1] == 0 || !tensor.ends_with(".weight")) return false;
  const std::vector<std::string_view> parts =
      PartsOf(tensor.substr(0, tensor.size() - std::string_view(".weight").size()));
  const bool skipped = std::any_of(parts.begin(), parts.end(),
                                   [](std::string_view part) { return part == "lm_head" || IsRouter(part); });
  const std::string_view last = parts.back();
  return !skipped && last.find("embed") == std::string_view::npos && last != "wte" && last != "wpe";
}

}  // namespace skerry
