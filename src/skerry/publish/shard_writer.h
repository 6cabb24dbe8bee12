// One rank of a sharded model: compares, encodes and stores its own part of a version.
#ifndef SKERRY_PUBLISH_SHARD_WRITER_H_
#define SKERRY_PUBLISH_SHARD_WRITER_H_

#include <memory>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/board/part_receipt.h"
#include "skerry/patch/encoder.h"
#include "skerry/publish/capture.h"
#include "skerry/publish/shard_snapshot.h"
#include "skerry/publish/skip_builder.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {

struct ShardOptions {
  Path state_directory;          // of this rank
  std::vector<TensorBox> boxes;  // of the model's tensors that this rank answers for; BoxRuns says which may be
  uint64_t index = 0, of = 1;    // of the ranks, those without boxes included
  Level level = Level::kCompact;
  int threads = 1;
};

// How ranks publish a version together (see also shard_release.h):
//   1. all learn the head from one of them; who is not at its version is told to Build
//   2. each begins a capture and takes its boxes
//   3. each encodes, proves and stores its part, and hands its receipt to the one that releases  failure: objects that
//      nobody names; nobody goes on
//   4. that one releases the version                                                          failure: the same
//   5. each follows                                                                   failure: its snapshot is rebuilt
// Who carries the messages is the caller's business: all that they hold are bytes. Holds the state directory's lock.
// Not thread-safe.
class ShardWriter {
 public:
  // `layout`: of the run's versions. kInvalid for boxes that can't be.
  static Result<ShardWriter> Open(const Board& board, const RunId& run, const Layout& layout, ShardOptions options);
  ShardWriter(ShardWriter&&) noexcept;
  ~ShardWriter();

  // Whether the snapshot is this version's; if not, Build makes it so from any checkpoint of it.
  Result<bool> IsAt(Version version, Progress& progress);
  Status Build(const Checkpoint& whole, Version version, Progress& progress);

  // Ordinals and `layout()` of the capture are those of the boxes, in ascending order of their names; boxes() are in
  // the same order.
  Capture BeginCapture() const;
  const std::vector<TensorBox>& boxes() const { return snapshot_.boxes(); }

  // Stores the part of the version after `base` and returns the receipt: what part_receipt.h describes. The version's
  // skips are made too, as far as this rank's undos reach.
  Result<Bytes> Encode(const Capture& capture, Version base, const Digest& base_manifest, Progress& progress);

  // The version that was encoded from this capture is out: the snapshot moves to it. Where that fails it is dropped,
  // and built again before the next version.
  Status Follow(const Capture& capture, Progress& progress);
  // It is not, or the snapshot is not to be trusted.
  Status Drop() { return snapshot_.Drop(); }

 private:
  ShardWriter(const Board& board, const RunId& run, ShardOptions options, FileLock lock, ShardSnapshot snapshot);

  Status EncodePart(const Capture& capture, Progress& progress, PartReceipt& receipt);
  SkipBuilder::Step StepTo(const Capture& capture) const;
  VersionLabel LabelOf(Version version) const { return {run_.str(), version}; }

  Board board_;
  RunId run_;
  ShardOptions options_;
  FileLock lock_;
  ShardSnapshot snapshot_;
  SkipBuilder skips_;
  NoTensors nothing_;

  struct Encoded;
  std::unique_ptr<Encoded> encoded_;        // last, until it is followed
  std::vector<RunningDigest> next_shares_;  // of its target
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_SHARD_WRITER_H_
