// What an engine is told to call the weights of a version.
#ifndef SKERRY_ENGINE_WEIGHT_LABEL_H_
#define SKERRY_ENGINE_WEIGHT_LABEL_H_

#include <optional>
#include <string>
#include <string_view>

#include "skerry/apply/state.h"
#include "skerry/board/names.h"

namespace skerry {

// "grpo-1@7". The run is in it, since numbers begin anew in another run and an engine may be handed from one to
// another.
std::string WeightLabel(const RunId& run, Version version);

// nullopt for what is no such label ("default", "").
std::optional<VersionLabel> ParseWeightLabel(std::string_view label);

}  // namespace skerry

#endif  // SKERRY_ENGINE_WEIGHT_LABEL_H_
