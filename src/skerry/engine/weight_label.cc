#include "skerry/engine/weight_label.h"

namespace skerry {

std::string WeightLabel(const RunId& run, Version version) { return fmt::format("{}@{}", run, version); }

std::optional<VersionLabel> ParseWeightLabel(std::string_view label) {
  // A run's name has no @.
  const size_t at = label.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto run = RunId::Parse(label.substr(0, at));
  const auto version = Version::Parse(label.substr(at + 1));
  if (!run || !version) return std::nullopt;
  return VersionLabel{run->str(), *version};
}

}  // namespace skerry
