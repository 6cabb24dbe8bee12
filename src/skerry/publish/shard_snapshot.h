// A rank's own part of the last published version: boxes of tensors, as a small checkpoint of their own.
#ifndef SKERRY_PUBLISH_SHARD_SNAPSHOT_H_
#define SKERRY_PUBLISH_SHARD_SNAPSHOT_H_

#include <optional>
#include <vector>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/base/progress.h"
#include "skerry/tensors/tensor_box.h"

namespace skerry {

// Only a cache of what the board has: it can be dropped at any time. One per directory, not thread-safe.
class ShardSnapshot {
 public:
  // Of these boxes of a model with tensors `whole`.
  static Result<ShardSnapshot> Make(Path directory, const Layout& whole, std::vector<TensorBox> boxes);

  // Opens what is there; whether that is these boxes at `version`. Reads all of it once.
  Result<bool> Open(const VersionLabel& version, int threads, Progress& progress);
  // Replaces it by the boxes of a checkpoint of that version. Reads only them.
  Status Build(const Checkpoint& whole, const VersionLabel& version, int threads, Progress& progress);
  // Moves it by a patch that was made from it, which leads to these shares.
  Status Follow(const Patch& patch, const VersionLabel& version, std::vector<RunningDigest> shares, int threads,
                Progress& progress);
  Status Drop();

  bool IsAt(const VersionLabel& version) const { return canonical_ && canonical_->state().label == version; }
  // Another one whenever the bytes may be others.
  uint64_t generation() const { return generation_; }
  // In the layout's order.
  const std::vector<TensorBox>& boxes() const { return boxed_.boxes; }
  const BoxRuns& runs(size_t box) const { return boxed_.runs[box]; }

  // Where it is open: the boxes, as a checkpoint.
  const Checkpoint& checkpoint() const { return canonical_->checkpoint(); }
  // Running digests of the boxes, and what they add to those of their tensors; in the layout's order.
  const std::vector<RunningDigest>& digests() const { return canonical_->state().tensors; }
  const std::vector<RunningDigest>& shares() const { return shares_; }

 private:
  ShardSnapshot(Path directory, BoxView::Boxed boxed) : directory_(std::move(directory)), boxed_(std::move(boxed)) {}

  Status ReadShares(int threads, Progress& progress);

  Path directory_;
  BoxView::Boxed boxed_;
  uint64_t generation_ = 0;
  std::optional<CanonicalCheckpoint> canonical_;
  std::vector<RunningDigest> shares_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_SHARD_SNAPSHOT_H_
