#include "skerry/apply/patch_algebra.h"

#include "skerry/apply/patched_chain.h"

namespace skerry {
namespace {

// What an encoder between base and source, in either direction, need not find out again; nothing where the tensors are
// not the same.
std::optional<KnownChanges> Known(const PatchedChain& chain, bool backwards) {
  if (chain.structural()) return std::nullopt;
  return KnownChanges{.base_digests = backwards ? chain.digests() : chain.base_digests(),
                      .target_digests = backwards ? chain.base_digests() : chain.digests(),
                      .touched_cells = chain.touched_cells()};
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
  const auto known = Known(chain, /*backwards=*/false);
  return EncodePatch(base, chain.source(), std::move(side_files), Allowing(options), sink, progress,
                     known ? &*known : nullptr);
}

Result<EncodeReceipt> InvertPatch(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                  const Patch& patch, const EncodeOptions& options, ByteSink& sink,
                                  Progress& progress) {
  const Patch* const patches[] = {&patch};
  SKERRY_ASSIGN(const PatchedChain chain, PatchedChain::Make(base, base_digests, patches, options.threads, progress));
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files, SideFileChanges(base, chain.side_files(), /*backwards=*/true));
  const auto known = Known(chain, /*backwards=*/true);
  return EncodePatch(chain.source(), base, std::move(side_files), Allowing(options), sink, progress,
                     known ? &*known : nullptr);
}

}  // namespace skerry
