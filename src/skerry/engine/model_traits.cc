#include "skerry/engine/model_traits.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace skerry {
namespace {

using Json = nlohmann::json;

constexpr std::array kExpertCounts = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"};
// Configs nest two or three deep.
constexpr int kMaxDepth = 8;

std::string Says(const std::string& key, const Json& value) {
  return fmt::format("config.json says \"{}\": {}", key, value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

struct Findings {
  ModelTraits traits;
  bool untied = false;  // said so in so many words
};

void Look(const Json& config, int depth, Findings& found) {
  if (!config.is_object() || depth > kMaxDepth) return;
  for (const auto& [key, value] : config.items()) {
    const bool counts = std::find(kExpertCounts.begin(), kExpertCounts.end(), key) != kExpertCounts.end();
    if (counts && value.is_number() && value.get<double>() > 1) found.traits.experts = Says(key, value);
    if (key == "tie_word_embeddings" && value.is_boolean()) {
      if (value.get<bool>()) found.traits.tied = Says(key, value);
      found.untied = found.untied || !value.get<bool>();
    }
    if (key == "quantization_config" && !value.is_null()) {
      found.traits.quantised = "config.json has a \"quantization_config\"";
    }
    Look(value, depth + 1, found);
  }
}

}  // namespace

Result<ModelTraits> TraitsOf(const Checkpoint& checkpoint) {
  const auto& files = checkpoint.side_files();
  const auto config =
      std::find_if(files.begin(), files.end(), [](const auto& file) { return file.path == "config.json"; });
  if (config == files.end()) {
    return Fail(Code::kUnsupported, "{}: there is no config.json, so nothing tells what kind of model it is",
                checkpoint.directory().string());
  }
  SKERRY_ASSIGN(const Bytes bytes, checkpoint.ReadSideFile(*config));
  const Json json = Json::parse(AsText(bytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Fail(Code::kCorrupt, "{}/config.json: not a JSON object", checkpoint.directory().string());
  }
  Findings found;
  Look(json, 0, found);
  bool has_head = false;
  for (const LayoutTensor& tensor : checkpoint.layout().tensors()) {
    has_head = has_head || tensor.name.ends_with("lm_head.weight");
    if (found.traits.experts.empty() && tensor.name.find(".experts.") != std::string::npos) {
      found.traits.experts = fmt::format("it has a tensor {}", tensor.name);
    }
  }
  if (found.traits.tied.empty() && !found.untied && !has_head) {
    found.traits.tied = "config.json does not say \"tie_word_embeddings\" and there is no lm_head.weight";
  }
  return std::move(found.traits);
}

}  // namespace skerry
