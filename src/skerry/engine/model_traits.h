// What about a model makes a weight reload by the engine's own loader unreliable.
#ifndef SKERRY_ENGINE_MODEL_TRAITS_H_
#define SKERRY_ENGINE_MODEL_TRAITS_H_

#include <string>

#include "skerry/base/result.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// Each text is empty, or says by what it was seen: `config.json says "num_experts": 128`.
struct ModelTraits {
  std::string experts;    // mixture of experts
  std::string tied;       // input and output embeddings are one tensor
  std::string quantised;  // the checkpoint's tensors are quantised
};

// From config.json (Hugging Face transformers) at any depth, since models of several parts nest their configs, and from
// the tensors' names. Where the config doesn't say, embeddings count as tied unless there is an lm_head.
// kUnsupported when there is no config.json, kCorrupt when it is no JSON object.
Result<ModelTraits> TraitsOf(const Checkpoint& checkpoint);

}  // namespace skerry

#endif  // SKERRY_ENGINE_MODEL_TRAITS_H_
