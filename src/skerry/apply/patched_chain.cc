#include "skerry/apply/patched_chain.h"

#include <algorithm>

#include "skerry/apply/verified_changes.h"
#include "skerry/patch/cell_order.h"

namespace skerry {

Result<PatchedChain> PatchedChain::Make(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                        std::span<const Patch* const> patches, int threads, Progress& progress) {
  PatchedChain chain(base);
  chain.base_digests_.assign(base_digests.begin(), base_digests.end());
  if (base_digests.empty()) {
    SKERRY_ASSIGN(chain.base_digests_, DigestTensors(base, threads, progress));
  }
  chain.digests_ = chain.base_digests_;
  chain.touched_cells_.resize(CellOrder(base.layout()).cells());
  for (const Patch* patch : patches) SKERRY_TRY(chain.Add(*patch, threads, progress));
  return chain;
}

Status PatchedChain::Add(const Patch& patch, int threads, Progress& progress) {
  SKERRY_TRY(CheckBase(patch, source().layout(), digests_));
  SKERRY_TRY(CheckPlacement(patch, source().layout()));
  SKERRY_ASSIGN(Layout target, TargetLayout(patch, source().layout()));
  const auto nothing = [](const RunChanges&) -> Status { return {}; };
  SKERRY_ASSIGN(digests_, DecodeVerified(patch, source(), digests_, target, threads, progress, nothing));
  SKERRY_ASSIGN(std::unique_ptr<PatchedSource> patched, PatchedSource::Open(source(), patch, std::move(target)));
  sources_.push_back(std::move(patched));
  structural_ |= patch.info().structural;
  touched_cells_.resize(CellOrder(source().layout()).cells());
  MarkTouchedCells(patch, touched_cells_);
  for (const SideFileChange& file : patch.head().side_files) side_files_[file.path] = file.content;
  return {};
}

void MarkTouchedCells(const Patch& patch, std::vector<bool>& touched_cells) {
  for (const BlockEntry& block : patch.head().blocks) {
    std::fill_n(touched_cells.begin() + static_cast<ptrdiff_t>(block.first_cell), block.cells, true);
  }
}

Result<std::vector<SideFileChange>> SideFileChanges(const Checkpoint& base, const PatchedChain::SideFiles& patched,
                                                    bool backwards) {
  std::vector<SideFileChange> changes;
  for (const auto& [path, content] : patched) {
    SideFileChange old{.path = path, .content = std::nullopt};
    for (const SideFileInfo& file : base.side_files()) {
      if (file.path != path) continue;
      SKERRY_ASSIGN(old.content, base.ReadSideFile(file));
    }
    if (old.content == content) continue;
    changes.push_back(backwards ? std::move(old) : SideFileChange{.path = path, .content = content});
  }
  return changes;
}

}  // namespace skerry
