// The patches that together lead from one version to another: one over all tensors, or a part for each of several
// groups of tensors.
#ifndef SKERRY_APPLY_PATCH_SET_H_
#define SKERRY_APPLY_PATCH_SET_H_

#include <functional>
#include <span>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/board/references.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/running_digest.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// The ordinals that a part's ranges stand for; all `count` where it has none. kCorrupt when a range is beyond them.
Result<std::vector<size_t>> TensorsOfPart(const PatchPart& part, size_t count);

// Refers to its patches, which must outlive it. Cheap to copy.
class PatchSet {
 public:
  // One patch over all tensors. Implicit, since it is the usual case.
  PatchSet(const Patch& whole);  // NOLINT(google-explicit-constructor)

  // `parts[i]` says the tensors of `patches[i]`, of a model with this layout; what boxes of them they are about, they
  // say themselves. Parts change no layout: kCorrupt when one does, or when they are not what `parts` can be.
  static Result<PatchSet> OfParts(std::span<const Patch> patches, std::span<const PatchPart> parts,
                                  const Layout& layout, const Digest& base_model, const Digest& target_model);

  const Digest& base_model() const { return base_model_; }
  const Digest& target_model() const { return target_model_; }
  // The only patch, over all tensors; null where there are parts.
  const Patch* whole() const { return is_whole_ ? members_.front().patch : nullptr; }
  // The patch whose side files count: the first.
  const Patch& first() const { return *members_.front().patch; }

  uint64_t changed() const;
  uint64_t blocks() const;
  uint64_t dense_cells() const;  // cells of blocks that replace every unit

  // Refuses (kMismatch) a base whose tensors or digests are not what the patches were made for.
  Status CheckBase(const Layout& base, std::span<const RunningDigest> base_digests) const;

  // As skerry::DecodeVerified (verified_changes.h) for all of them, with ordinals of the whole model: returns the
  // target's running digests after checking that they give target_model().
  Result<std::vector<RunningDigest>> DecodeVerified(const TensorSource& base,
                                                    std::span<const RunningDigest> base_digests, const Layout& target,
                                                    int threads, Progress& progress,
                                                    const std::function<Status(RunChanges)>& take) const;

 private:
  struct Member {
    const Patch* patch = nullptr;
    std::vector<size_t> tensors;   // ordinals in the whole model; empty: all
    std::vector<TensorBox> boxes;  // the patch's tensors, where they are boxes of the model's
  };
  PatchSet() = default;

  Status DecodeTensors(const Member& member, const TensorSource& base, int threads, Progress& progress,
                       const std::function<Status(RunChanges)>& take, std::vector<RunningDigest>& digests) const;
  Status DecodeBoxes(const Member& member, const TensorSource& base, int threads, Progress& progress,
                     const std::function<Status(RunChanges)>& take, std::vector<RunningDigest>& digests) const;

  std::vector<Member> members_;  // at least one
  Digest base_model_, target_model_;
  bool is_whole_ = false;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_PATCH_SET_H_
