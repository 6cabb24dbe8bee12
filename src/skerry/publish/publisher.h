// Publishes checkpoints as the versions of a run.
#ifndef SKERRY_PUBLISH_PUBLISHER_H_
#define SKERRY_PUBLISH_PUBLISHER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skerry/base/clock.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/patch/encoder.h"
#include "skerry/publish/capture.h"
#include "skerry/publish/part_exchange.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

struct PublishOptions {
  // Holds the snapshot of the last published version, the publisher's identity and what it remembers; below
  // views/<view>/ the same of each further view. One publisher at a time.
  Path state_directory;
  std::optional<Version> version;  // publish as exactly this one
  std::optional<int64_t> step;     // the trainer's count, kept as metadata
  bool allow_empty = false;        // make a version even when nothing changed
  bool take_over = false;          // go on although another publisher took the run over from this one
  Level level = Level::kCompact;   // of the patch
  int threads = 1;
  // The patch is made and stored in this many parts, one being stored while the next is made. By default as many as
  // give parts of about 16 MiB.
  std::optional<size_t> parts;
  // This is one of several writers, each of whom makes its part of the version from a state directory of its own.
  std::optional<WriterOfMany> writer;
  // A new anchor is due when the patches from the last one to here are more than this share of it: what a late joiner
  // fetches on top of a full version is bounded by it. 0: none is ever made.
  double anchor_tail = 1.0 / 16;
};

struct PublishReceipt {
  Version version;
  bool published = false;  // false: the head (or the asked version) is this checkpoint already
  std::optional<int64_t> step;
  Digest model;
  uint64_t elements = 0, changed = 0, tensors_changed = 0;
  uint64_t patch_bytes = 0, checkpoint_bytes = 0;
  uint64_t shared_bytes = 0;    // of a further view: of its patch, what lies in an object of the run's own
  std::string warning;          // something that the next publish has to mend; the version itself is out
  double snapshot_seconds = 0;  // bringing the snapshot to the head
  double diff_seconds = 0;      // of the elapsed encode time, the share of comparing and digesting
  double encode_seconds = 0;    // the rest of it
  double publish_seconds = 0;   // objects (as far as that is not done meanwhile), manifest, head
  double advance_seconds = 0;   // the snapshot follows
  double anchor_seconds = 0;
  uint64_t parts = 0;
  uint64_t skips = 0, skip_bytes = 0;
  uint64_t anchor_bytes = 0;                                       // 0: none was made
  std::vector<std::pair<std::string, PublishReceipt>> views = {};  // the run's further views, by name
};

// What a version is in each further view of the run, by the view's name. Refers to them.
using ViewCheckpoints = std::map<std::string, const Checkpoint*, std::less<>>;
using ViewCaptures = std::map<std::string, const Capture*, std::less<>>;

// Publishes the versions of one run, one after another. Holds the state directory's lock. Not thread-safe, but captures
// of several views may be filled beside each other.
class Publisher {
 public:
  // `views`: the names of the run's further views, all of them. kConflict when another publisher is at work with this
  // state directory; kInvalid for a view in place of a run.
  static Result<Publisher> Open(const Board& board, const RunId& run, const Path& state_directory,
                                const std::vector<std::string>& views = {});
  Publisher(Publisher&&) noexcept;
  ~Publisher();

  // Compares `checkpoint` with the snapshot and publishes what changed:
  //   1. bring the snapshot to the board's head (rebuild it where it is missing or damaged)
  //   2. compare and encode to the spool; decode and verify it as a reader will; store each part while the next is
  //   made;
  //      store skips, digests, layout             crash: objects that nobody names
  //   3. stage the manifest                       crash: a staged manifest that nobody names
  //   4. move the head by compare-and-swap        crash: published
  //   5. keep an undo, for skips; the snapshot follows; note the position  crash: the next publish catches up from the
  //      board, and the next skip is left out
  //   6. where one is due: write an anchor, which the next manifest will name  crash: the next publish writes another
  // The snapshot never runs ahead of the head, so a failed publish loses nothing: the next one is against the last
  // version that is durable. Who finds the head moved by somebody else gets kConflict, and what the winner wrote is
  // untouched; so does a publisher from whom another has taken the run over, until it is told to take it back. Without
  // `version`, publishing the head's own bytes again is a no-op; with it, a number that is taken by other bytes is
  // kConflict. A steady publisher sends five requests for a patch in one part: patch, digests, the alias of the version
  // before, manifest, head. Where the run has further views, each step is taken in all of them before the next one, and
  // the one head moves when all are durable; kInvalid unless `views` has them all. Tensors that are the same in all
  // views (embeddings that are not quantised, norms) travel in one object for all.
  Result<PublishReceipt> Publish(const Checkpoint& checkpoint, const ViewCheckpoints& views,
                                 const PublishOptions& options, const Clock& clock, Progress& progress);
  Result<PublishReceipt> Publish(const Checkpoint& checkpoint, const PublishOptions& options, const Clock& clock,
                                 Progress& progress) {
    return Publish(checkpoint, {}, options, clock, progress);
  }

  // For weights in memory. Begins a capture of what differs from the head's version, in the run's own view or the one
  // with this name: brings the snapshot there first,
  // which takes a while the first time. kConflict for who has been replaced as the run's publisher, unless it
  // `takes_over`. The capture is used up by the next Publish or BeginCapture.
  Result<Capture> BeginCapture(std::string_view view, int threads, bool takes_over, const Clock& clock,
                               Progress& progress);
  Result<Capture> BeginCapture(int threads, bool takes_over, const Clock& clock, Progress& progress) {
    return BeginCapture("", threads, takes_over, clock, progress);
  }
  // As above, with the snapshot's side files. `checkpoint` in messages is "the trainer's model". kConflict, with
  // nothing published, where the capture is used up or the head moved meanwhile: capture again.
  Result<PublishReceipt> Publish(const Capture& capture, const ViewCaptures& views, const PublishOptions& options,
                                 const Clock& clock, Progress& progress);
  Result<PublishReceipt> Publish(const Capture& capture, const PublishOptions& options, const Clock& clock,
                                 Progress& progress) {
    return Publish(capture, {}, options, clock, progress);
  }
  // The head that the last publish left or BeginCapture found; nullopt before.
  std::optional<Head> head() const;

 private:
  struct Impl;
  explicit Publisher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Opens a publisher with `options.state_directory` and publishes once.
Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                               const ViewCheckpoints& views, const PublishOptions& options, const Clock& clock,
                               Progress& progress);
inline Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                                      const PublishOptions& options, const Clock& clock, Progress& progress) {
  return Publish(board, run, checkpoint, {}, options, clock, progress);
}

// $XDG_CACHE_HOME (or ~/.cache) /skerry.
Result<Path> CacheDirectory();
// <cache directory>/publishers/<board id>/<run>.
Result<Path> DefaultPublisherState(const Board& board, const RunId& run);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_PUBLISHER_H_
