#include "skerry/apply/patch_set.h"

#include "skerry/apply/verified_changes.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {
namespace {

std::vector<RunningDigest> Pick(std::span<const RunningDigest> digests, const std::vector<size_t>& ordinals) {
  std::vector<RunningDigest> picked;
  for (const size_t ordinal : ordinals) picked.push_back(digests[ordinal]);
  return picked;
}

}  // namespace

Result<std::vector<size_t>> TensorsOfPart(const PatchPart& part, size_t count) {
  std::vector<size_t> ordinals;
  for (const auto& range : part.tensors) {
    if (range.first > count || range.count > count - range.first) {
      return Fail(Code::kCorrupt, "{} is about tensors {} to {}, but there are {}", part.object.name(), range.first,
                  range.first + range.count, count);
    }
    for (uint64_t i = 0; i < range.count; ++i) ordinals.push_back(range.first + i);
  }
  for (size_t i = 0; part.tensors.empty() && i < count; ++i) ordinals.push_back(i);
  return ordinals;
}

PatchSet::PatchSet(const Patch& whole)
    : base_model_(whole.info().base_model), target_model_(whole.info().target_model) {
  members_.push_back({.patch = &whole, .tensors = {}});
}

Result<PatchSet> PatchSet::OfParts(std::span<const Patch> patches, std::span<const PatchPart> parts, size_t tensors,
                                   const Digest& base_model, const Digest& target_model) {
  if (patches.empty() || patches.size() != parts.size()) {
    return Fail(Code::kInvalid, "{} patches for {} parts", patches.size(), parts.size());
  }
  if (parts.size() == 1 && parts[0].tensors.empty()) {
    const PatchInfo& info = patches[0].info();
    if (info.base_model == base_model && info.target_model == target_model) return PatchSet(patches[0]);
    return Fail(Code::kMismatch, "{}: leads from model {} to {}, not from {} to {}", patches[0].name(),
                info.base_model.Short(), info.target_model.Short(), base_model.Short(), target_model.Short());
  }
  PatchSet set;
  set.base_model_ = base_model;
  set.target_model_ = target_model;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Patch& patch = patches[i];
    if (patch.info().structural || patch.head().layout || patch.info().base_layout != patch.info().target_layout) {
      return Fail(Code::kCorrupt, "{}: a part can't change the layout", patch.name());
    }
    if (i > 0 && !patch.head().side_files.empty()) {
      return Fail(Code::kCorrupt, "{}: only the first part has side files", patch.name());
    }
    SKERRY_ASSIGN(std::vector<size_t> ordinals, TensorsOfPart(parts[i], tensors));
    set.members_.push_back({.patch = &patch, .tensors = std::move(ordinals)});
  }
  return set;
}

uint64_t PatchSet::changed() const {
  uint64_t sum = 0;
  for (const Member& member : members_) sum += member.patch->info().changed;
  return sum;
}

uint64_t PatchSet::blocks() const {
  uint64_t sum = 0;
  for (const Member& member : members_) sum += member.patch->info().blocks;
  return sum;
}

uint64_t PatchSet::dense_cells() const {
  uint64_t sum = 0;
  for (const Member& member : members_) {
    for (const BlockEntry& block : member.patch->head().blocks) {
      if (block.method == Method::kDense) sum += block.cells;
    }
  }
  return sum;
}

Status PatchSet::CheckBase(const Layout& base, std::span<const RunningDigest> base_digests) const {
  if (const Patch* patch = whole()) return skerry::CheckBase(*patch, base, base_digests);
  for (const Member& member : members_) {
    SKERRY_TRY(skerry::CheckBase(*member.patch, base.Subset(member.tensors), Pick(base_digests, member.tensors)));
  }
  const Digest model = ModelDigest(base.tensors_digest(), base_digests);
  if (model == base_model_) return {};
  return Fail(Code::kMismatch, "{}: one of the parts from model {}, but the checkpoint has {}", first().name(),
              base_model_.Short(), model.Short());
}

Result<std::vector<RunningDigest>> PatchSet::DecodeVerified(const TensorSource& base,
                                                            std::span<const RunningDigest> base_digests,
                                                            const Layout& target, int threads, Progress& progress,
                                                            const std::function<Status(RunChanges)>& take) const {
  if (const Patch* patch = whole()) {
    return skerry::DecodeVerified(*patch, base, base_digests, target, threads, progress, take);
  }
  std::vector<RunningDigest> digests(base_digests.begin(), base_digests.end());
  for (const Member& member : members_) {
    const TensorSubset subset(base, member.tensors);
    const auto taken = [&](RunChanges changes) {
      changes.run.tensor = member.tensors[changes.run.tensor];
      return take(std::move(changes));
    };
    SKERRY_ASSIGN(const std::vector<RunningDigest> moved,
                  skerry::DecodeVerified(*member.patch, subset, Pick(base_digests, member.tensors), subset.layout(),
                                         threads, progress, taken));
    for (size_t i = 0; i < moved.size(); ++i) digests[member.tensors[i]] = moved[i];
  }
  const Digest model = ModelDigest(target.tensors_digest(), digests);
  if (model == target_model_) return digests;
  return Fail(Code::kCorrupt, "{} and the other parts lead to model digest {}, not {}", first().name(), model.Short(),
              target_model_.Short());
}

}  // namespace skerry
