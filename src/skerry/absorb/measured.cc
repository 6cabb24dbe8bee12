#include "skerry/absorb/measured.h"

#include <algorithm>
#include <cstring>

#include "skerry/apply/catch_up.h"
#include "skerry/apply/merged_steps.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {
namespace {

// Steps that a version took, when the run began with `base`.
std::optional<StepRange> StepsOf(const Manifest& base, const Manifest& before, const Manifest& manifest) {
  StepRange steps{before.version.number(), manifest.version.number()};
  if (manifest.step && (before.step || before.version.IsBase())) {
    // A base is step 0, unless it says that it is another.
    const int64_t zero = base.step.value_or(0);
    const int64_t from = before.step.value_or(0) - zero, to = *manifest.step - zero;
    if (from < 0 || to <= from) return std::nullopt;
    steps = {static_cast<uint64_t>(from), static_cast<uint64_t>(to)};
  }
  if (steps.to > kMostSteps) return std::nullopt;
  return steps;
}

// The BF16 exponents of old values.
void CountExponents(const BlockChanges& changes, ChangeDetail& detail) {
  for (size_t i = 0; i < changes.count(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, changes.values.data() + i * sizeof(bits), sizeof(bits));
    if ((bits & 0x7FFF) != 0) ++detail.exponents[(bits >> 7 & 255) - 127];
  }
}

Result<ChangeDetail> DetailOf(const UndoStep& step, const Layout& layout) {
  SKERRY_ASSIGN(const MergedSteps merged, MergedSteps::Open({&step, 1}, layout));
  ChangeDetail detail;
  for (const MergedSteps::Window& window : merged.windows()) {
    SKERRY_ASSIGN(const BlockChanges changes, merged.Changes(window));
    const LayoutTensor& tensor = layout.tensors()[window.tensor];
    detail.kinds[static_cast<size_t>(KindOf(tensor.name))] += changes.count();
    if (tensor.dtype == DType::kBF16) CountExponents(changes, detail);
  }
  return detail;
}

}  // namespace

Result<std::vector<MeasuredVersion>> ReadMeasured(const Board& board, const RunId& run, Version first, Version last) {
  if (first.IsBase() || last < first) {
    return Fail(Code::kInvalid, "versions {} to {}: the first is at least 1, and not after the last", first, last);
  }
  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(run));
  SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(at.head, last));
  // Where gc has removed the base, it is taken not to have named a step.
  Result<Manifest> base = board.ReadManifest(at.head, Version());
  if (!base && base.error().code != Code::kNotFound) return tl::unexpected<Error>(base.error());
  const Manifest beginning = base ? *std::move(base) : Manifest{};
  std::vector<MeasuredVersion> versions;
  while (!(manifest.version < first)) {
    SKERRY_ASSIGN(Manifest before, board.ReadManifest(run, manifest.version.Previous(), *manifest.parent));
    if (const std::optional<StepRange> steps = StepsOf(beginning, before, manifest)) {
      versions.push_back({.version = manifest.version,
                          .steps = *steps,
                          .changed = manifest.stats.changed,
                          .patch_bytes = manifest.stats.patch_bytes,
                          .detail = {}});
    }
    manifest = std::move(before);
  }
  std::reverse(versions.begin(), versions.end());
  return versions;
}

Status ReadDetails(const Board& board, const RunId& run, std::vector<MeasuredVersion>& versions, const Path& folder,
                   int threads, Progress& progress) {
  if (versions.empty()) return {};
  const Path directory = folder / "checkpoint";
  CatchUpOptions options{.threads = threads};
  options.costs.link_bytes_per_second = 1;  // bytes are all that counts: no anchor where a patch leads there
  options.canonical.undo.versions = 1;
  const auto move_to = [&](Version version) {
    options.version = version;
    return CatchUp(board, run, directory, options, progress);
  };
  SKERRY_TRY(move_to(versions.front().version.Previous()));
  for (MeasuredVersion& version : versions) {
    SKERRY_TRY(move_to(version.version.Previous()));  // only where versions were left out
    SKERRY_TRY(move_to(version.version));
    SKERRY_ASSIGN(const UndoLog log, UndoLog::Read(DefaultStateDirectory(directory)));
    const VersionLabel before{run.str(), version.version.Previous()}, after{run.str(), version.version};
    if (log.steps().empty() || log.steps().back().from.label != before || log.steps().back().to.label != after)
      continue;
    SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(directory));
    SKERRY_ASSIGN(version.detail, DetailOf(log.steps().back(), checkpoint.layout()));
  }
  return {};
}

}  // namespace skerry
