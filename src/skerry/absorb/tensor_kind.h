// What a tensor is for, as far as its name tells.
#ifndef SKERRY_ABSORB_TENSOR_KIND_H_
#define SKERRY_ABSORB_TENSOR_KIND_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace skerry {

enum class TensorKind { kEmbedding, kAttention, kMlp, kNorm, kRouter, kExperts, kOther };
inline constexpr int kTensorKinds = 7;

// "embedding", "attention", "MLP", "norm", "router", "experts", "other"
std::string_view TensorKindName(TensorKind kind);

// By the parts of the name between dots, as the models of transformers, vLLM and Megatron call them. Output layers are
// embeddings. A name that says nothing is kOther.
TensorKind KindOf(std::string_view tensor);

// Whether views quantise the tensor: a weight of a linear layer, told by its name and shape, but no embedding, output
// layer or router. The same rule as the Python package's skerry.views with its usual `skip`.
bool IsQuantised(std::string_view tensor, std::span<const uint64_t> shape);

}  // namespace skerry

#endif  // SKERRY_ABSORB_TENSOR_KIND_H_
