#include "skerry/apply/patch_set.h"

#include <algorithm>

#include "skerry/apply/boxed_changes.h"
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
    : base_model_(whole.info().base_model), target_model_(whole.info().target_model), is_whole_(true) {
  members_.push_back({.patch = &whole, .tensors = {}, .boxes = {}});
}

Result<PatchSet> PatchSet::OfParts(std::span<const Patch> patches, std::span<const PatchPart> parts,
                                   const Layout& layout, const Digest& base_model, const Digest& target_model) {
  if (patches.empty() || patches.size() != parts.size()) {
    return Fail(Code::kInvalid, "{} patches for {} parts", patches.size(), parts.size());
  }
  if (parts.size() == 1 && parts[0].tensors.empty() && !parts[0].boxed) {
    const PatchInfo& info = patches[0].info();
    if (info.base_model == base_model && info.target_model == target_model) return PatchSet(patches[0]);
    return Fail(Code::kMismatch, "{}: leads from model {} to {}, not from {} to {}", patches[0].name(),
                info.base_model.Short(), info.target_model.Short(), base_model.Short(), target_model.Short());
  }
  PatchSet set;
  set.base_model_ = base_model;
  set.target_model_ = target_model;
  std::vector<TensorBox> boxes;  // of all parts
  for (size_t i = 0; i < parts.size(); ++i) {
    const Patch& patch = patches[i];
    const PatchHead& head = patch.head();
    if (head.info.structural || head.layout || head.info.base_layout != head.info.target_layout) {
      return Fail(Code::kCorrupt, "{}: a part can't change the layout", patch.name());
    }
    if (i > 0 && !head.side_files.empty()) {
      return Fail(Code::kCorrupt, "{}: only the first part has side files", patch.name());
    }
    if (parts[i].boxed == head.boxes.empty()) {
      return Fail(Code::kCorrupt, "{}: its manifest says {}, but it has {} boxes", patch.name(),
                  parts[i].boxed ? "boxes" : "whole tensors", head.boxes.size());
    }
    SKERRY_ASSIGN(std::vector<size_t> ordinals, TensorsOfPart(parts[i], layout.tensors().size()));
    for (const TensorBox& box : head.boxes) {
      if (std::binary_search(ordinals.begin(), ordinals.end(), box.tensor)) continue;
      return Fail(Code::kCorrupt, "{}: has a box of tensor {}, which its manifest does not name", patch.name(),
                  box.tensor);
    }
    boxes.insert(boxes.end(), head.boxes.begin(), head.boxes.end());
    set.members_.push_back({.patch = &patch, .tensors = std::move(ordinals), .boxes = head.boxes});
  }
  if (const Status apart = CheckBoxesApart(layout, boxes); !apart) {
    return Fail(Code::kCorrupt, "{} and the other parts: {}", patches[0].name(), apart.error().message);
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
    if (!member.boxes.empty()) continue;  // their digests are nowhere: that of the whole model says as much
    SKERRY_TRY(skerry::CheckBase(*member.patch, base.Subset(member.tensors), Pick(base_digests, member.tensors)));
  }
  const Digest model = ModelDigest(base.tensors_digest(), base_digests);
  if (model == base_model_) return {};
  return Fail(Code::kMismatch, "{}: one of the parts from model {}, but the checkpoint has {}", first().name(),
              base_model_.Short(), model.Short());
}

Status PatchSet::DecodeTensors(const Member& member, const TensorSource& base, int threads, Progress& progress,
                               const std::function<Status(RunChanges)>& take,
                               std::vector<RunningDigest>& digests) const {
  const TensorSubset subset(base, member.tensors);
  const auto taken = [&](RunChanges changes) {
    changes.run.tensor = member.tensors[changes.run.tensor];
    return take(std::move(changes));
  };
  SKERRY_ASSIGN(const std::vector<RunningDigest> moved,
                skerry::DecodeVerified(*member.patch, subset, Pick(digests, member.tensors), subset.layout(), threads,
                                       progress, taken));
  for (size_t i = 0; i < moved.size(); ++i) digests[member.tensors[i]] = moved[i];
  return {};
}

// What a patch says about the digests of its boxes is not looked at: nobody keeps those. Its blocks have checksums, and
// the model that it leads to together with the others is looked at in the end.
Status PatchSet::DecodeBoxes(const Member& member, const TensorSource& base, int threads, Progress& progress,
                             const std::function<Status(RunChanges)>& take, std::vector<RunningDigest>& digests) const {
  auto view = BoxView::Of(base, member.boxes);
  if (!view) return Annotate(std::move(view).error(), member.patch->name());
  if (view->boxes() != member.boxes || view->layout().tensors_digest() != member.patch->info().base_tensors) {
    return Fail(Code::kMismatch, "{}: made for boxes with tensors {}, but those of this model are {}",
                member.patch->name(), member.patch->info().base_tensors.Short(),
                view->layout().tensors_digest().Short());
  }
  const auto add = [&](RunChanges changes) -> Status {
    digests[changes.run.tensor] += changes.moved;
    return take(std::move(changes));
  };
  return DecodeChanges(*member.patch, *view, view->layout(), threads, progress,
                       [&](RunChanges changes) { return TakeUnboxed(*view, std::move(changes), add); });
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
    SKERRY_TRY(member.boxes.empty() ? DecodeTensors(member, base, threads, progress, take, digests)
                                    : DecodeBoxes(member, base, threads, progress, take, digests));
  }
  const Digest model = ModelDigest(target.tensors_digest(), digests);
  if (model == target_model_) return digests;
  return Fail(Code::kCorrupt, "{} and the other parts lead to model digest {}, not {}", first().name(), model.Short(),
              target_model_.Short());
}

}  // namespace skerry
