// A model that is a base with a patch over it, without being written anywhere.
#ifndef SKERRY_APPLY_PATCHED_SOURCE_H_
#define SKERRY_APPLY_PATCHED_SOURCE_H_

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "skerry/patch/patch.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// Decodes blocks when they are read, and keeps the last ones. Base and patch must outlive it; verify the patch against
// the base first (apply/verified_changes.h).
class PatchedSource : public TensorSource {
 public:
  // `target`: see TargetLayout.
  static Result<std::unique_ptr<PatchedSource>> Open(const TensorSource& base, const Patch& patch, Layout target);

  const Layout& layout() const override { return target_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const override;
  Status Check() const override { return base_.Check(); }

 private:
  using Decoded = std::shared_ptr<const std::vector<RunChanges>>;

  PatchedSource(const TensorSource& base, const Patch& patch, Layout target)
      : base_(base), patch_(patch), target_(std::move(target)) {}

  Result<Decoded> DecodedBlock(size_t index) const;

  const TensorSource& base_;
  const Patch& patch_;
  const Layout target_;
  std::vector<int64_t> base_of_;  // target ordinal -> base ordinal, or -1
  std::vector<PlacedBlock> blocks_;
  std::vector<std::vector<size_t>> blocks_of_;  // target ordinal -> its blocks, rising

  mutable std::mutex mutex_;
  mutable std::list<std::pair<size_t, Decoded>> recent_;  // most recent first
  mutable uint64_t recent_bytes_ = 0;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_PATCHED_SOURCE_H_
