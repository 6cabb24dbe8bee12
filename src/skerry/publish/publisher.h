// Publishes a checkpoint as the next version of a run.
#ifndef SKERRY_PUBLISH_PUBLISHER_H_
#define SKERRY_PUBLISH_PUBLISHER_H_

#include <optional>
#include <string>

#include "skerry/base/clock.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/patch/encoder.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

struct PublishOptions {
  // Holds the snapshot of the last published version, the publisher's identity and the spool. One publisher at a time.
  Path state_directory;
  std::optional<Version> version;  // publish as exactly this one
  std::optional<int64_t> step;     // the trainer's count, kept as metadata
  bool allow_empty = false;        // make a version even when nothing changed
  Level level = Level::kCompact;   // of the patch
  int threads = 1;
};

struct PublishReceipt {
  Version version;
  bool published = false;  // false: the head (or the asked version) is this checkpoint already
  std::optional<int64_t> step;
  Digest model;
  uint64_t elements = 0, changed = 0, tensors_changed = 0;
  uint64_t patch_bytes = 0, checkpoint_bytes = 0;
  std::string warning;          // something that the next publish has to mend; the version itself is out
  double snapshot_seconds = 0;  // bringing the snapshot to the head
  double diff_seconds = 0;      // of the elapsed encode time, the share of comparing and digesting
  double encode_seconds = 0;    // the rest of it
  double publish_seconds = 0;   // objects, manifest, head
  double advance_seconds = 0;   // the snapshot follows
};

// Compares `checkpoint` with the snapshot and publishes what changed:
//   1. bring the snapshot to the board's head (rebuild it where it is missing or damaged)
//   2. compare and encode to the spool; decode and verify it as a reader will     crash: nothing on the board
//   3. store patch, digests, layout; stage the manifest   crash: objects that nobody names
//   4. move the head by compare-and-swap          crash: published
//   5. store the manifest's alias                 crash: the next publisher mends it
//   6. the snapshot follows                       crash: the next publish catches up from the board
// The snapshot never runs ahead of the head, so a failed publish loses nothing. Who finds the head moved by somebody
// else between 1 and 4 gets kConflict, and what the winner wrote is untouched. Without `version`, publishing the head's
// own bytes again is a no-op; with it, a number that is taken by other bytes is kConflict.
Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                               const PublishOptions& options, const Clock& clock, Progress& progress);

// $XDG_CACHE_HOME (or ~/.cache) /skerry/publishers/<board id>/<run>.
Result<Path> DefaultPublisherState(const Board& board, const RunId& run);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_PUBLISHER_H_
