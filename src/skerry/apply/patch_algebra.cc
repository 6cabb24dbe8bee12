#include "skerry/apply/patch_algebra.h"

#include <map>

#include "skerry/apply/patched_source.h"
#include "skerry/apply/verified_changes.h"

namespace skerry {
namespace {

using SideFiles = std::map<std::string, std::optional<Bytes>>;

// `base` with verified patches over it, one after another.
class PatchedChain {
 public:
  static Result<PatchedChain> Make(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                   std::span<const Patch* const> patches, int threads, Progress& progress) {
    PatchedChain chain(base);
    chain.base_digests_.assign(base_digests.begin(), base_digests.end());
    if (base_digests.empty()) {
      SKERRY_ASSIGN(chain.base_digests_, DigestTensors(base, threads, progress));
    }
    chain.digests_ = chain.base_digests_;
    for (const Patch* patch : patches) SKERRY_TRY(chain.Add(*patch, threads, progress));
    return chain;
  }

  const TensorSource& source() const {
    return sources_.empty() ? static_cast<const TensorSource&>(base_) : *sources_.back();
  }
  // What the patches say about side files, the last word of each.
  const SideFiles& side_files() const { return side_files_; }
  // What an encoder between base and source, in either direction, need not find out again; nothing where the tensors
  // are not the same.
  std::optional<KnownChanges> Known(bool backwards) const {
    if (structural_) return std::nullopt;
    return KnownChanges{.base_digests = backwards ? digests_ : base_digests_,
                        .target_digests = backwards ? base_digests_ : digests_,
                        .touched_cells = touched_cells_};
  }

 private:
  explicit PatchedChain(const Checkpoint& base) : base_(base) {}

  Status Add(const Patch& patch, int threads, Progress& progress) {
    SKERRY_TRY(CheckBase(patch, source().layout(), digests_));
    SKERRY_TRY(CheckPlacement(patch, source().layout()));
    SKERRY_ASSIGN(Layout target, TargetLayout(patch, source().layout()));
    const auto nothing = [](const RunChanges&) -> Status { return {}; };
    SKERRY_ASSIGN(digests_, DecodeVerified(patch, source(), digests_, target, threads, progress, nothing));
    SKERRY_ASSIGN(std::unique_ptr<PatchedSource> patched, PatchedSource::Open(source(), patch, std::move(target)));
    sources_.push_back(std::move(patched));
    structural_ |= patch.info().structural;
    touched_cells_.resize(CellOrder(source().layout()).cells());
    for (const BlockEntry& block : patch.head().blocks) {
      std::fill_n(touched_cells_.begin() + static_cast<ptrdiff_t>(block.first_cell), block.cells, true);
    }
    for (const SideFileChange& file : patch.head().side_files) side_files_[file.path] = file.content;
    return {};
  }

  const Checkpoint& base_;
  std::vector<RunningDigest> base_digests_, digests_;
  std::vector<std::unique_ptr<PatchedSource>> sources_;
  SideFiles side_files_;
  bool structural_ = false;
  std::vector<bool> touched_cells_;
};

// What must be written and removed to get from the base's side files to those that the patches leave, or back.
Result<std::vector<SideFileChange>> SideFileChanges(const Checkpoint& base, const SideFiles& patched, bool backwards) {
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

EncodeOptions Allowing(EncodeOptions options) {
  options.allow_structural = true;  // what the given patches did is accepted
  return options;
}

}  // namespace

Result<EncodeReceipt> SquashPatches(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                    std::span<const Patch* const> patches, const EncodeOptions& options, ByteSink& sink,
                                    Progress& progress) {
  SKERRY_ASSIGN(const PatchedChain chain, PatchedChain::Make(base, base_digests, patches, options.threads, progress));
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files, SideFileChanges(base, chain.side_files(), /*backwards=*/false));
  const auto known = chain.Known(/*backwards=*/false);
  return EncodePatch(base, chain.source(), std::move(side_files), Allowing(options), sink, progress,
                     known ? &*known : nullptr);
}

Result<EncodeReceipt> InvertPatch(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                  const Patch& patch, const EncodeOptions& options, ByteSink& sink,
                                  Progress& progress) {
  const Patch* const patches[] = {&patch};
  SKERRY_ASSIGN(const PatchedChain chain, PatchedChain::Make(base, base_digests, patches, options.threads, progress));
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files, SideFileChanges(base, chain.side_files(), /*backwards=*/true));
  const auto known = chain.Known(/*backwards=*/true);
  return EncodePatch(chain.source(), base, std::move(side_files), Allowing(options), sink, progress,
                     known ? &*known : nullptr);
}

}  // namespace skerry
