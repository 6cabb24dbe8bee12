// A checkpoint with verified patches over it, one after another: other versions of it, without their files.
#ifndef SKERRY_APPLY_PATCHED_CHAIN_H_
#define SKERRY_APPLY_PATCHED_CHAIN_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skerry/apply/patched_source.h"
#include "skerry/base/progress.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// Base and patches must outlive it.
class PatchedChain {
 public:
  using SideFiles = std::map<std::string, std::optional<Bytes>>;

  // `base_digests` empty: they are computed.
  static Result<PatchedChain> Make(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                   std::span<const Patch* const> patches, int threads, Progress& progress);

  const TensorSource& source() const {
    return sources_.empty() ? static_cast<const TensorSource&>(base_) : *sources_.back();
  }
  const std::vector<RunningDigest>& base_digests() const { return base_digests_; }
  const std::vector<RunningDigest>& digests() const { return digests_; }  // of source()
  // By cell (see cell_order.h): those that no patch touches are the base's.
  const std::vector<bool>& touched_cells() const { return touched_cells_; }
  bool structural() const { return structural_; }
  // What the patches say about side files, the last word of each.
  const SideFiles& side_files() const { return side_files_; }

 private:
  explicit PatchedChain(const Checkpoint& base) : base_(base) {}
  Status Add(const Patch& patch, int threads, Progress& progress);

  const Checkpoint& base_;
  std::vector<RunningDigest> base_digests_, digests_;
  std::vector<std::unique_ptr<PatchedSource>> sources_;
  SideFiles side_files_;
  bool structural_ = false;
  std::vector<bool> touched_cells_;
};

// Marks the cells of a patch's blocks.
void MarkTouchedCells(const Patch& patch, std::vector<bool>& touched_cells);

// What must be written and removed to get from the base's side files to those that the patches leave, or back.
Result<std::vector<SideFileChange>> SideFileChanges(const Checkpoint& base, const PatchedChain::SideFiles& patched,
                                                    bool backwards);

}  // namespace skerry

#endif  // SKERRY_APPLY_PATCHED_CHAIN_H_
