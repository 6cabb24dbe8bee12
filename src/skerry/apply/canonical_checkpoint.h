// The canonical checkpoint of an island (or a publisher's snapshot): a complete Hugging Face directory that moves from
// version to version in place and survives a kill at any instant.
#ifndef SKERRY_APPLY_CANONICAL_CHECKPOINT_H_
#define SKERRY_APPLY_CANONICAL_CHECKPOINT_H_

#include <optional>

#include "skerry/apply/journal.h"
#include "skerry/apply/patch_set.h"
#include "skerry/apply/shard_files.h"
#include "skerry/apply/state.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

struct ApplyReceipt {
  uint64_t changed = 0;
  uint64_t journal_bytes = 0;
  double decode_seconds = 0;   // decode and verify, while readers still see the old version
  double journal_seconds = 0;  // writing the journal and making it durable
  double write_seconds = 0;    // writing the changed units
  double sync_seconds = 0;     // making them durable
};

// Holds the state directory's lock for its lifetime: one writer at a time, on one thread.
class CanonicalCheckpoint {
 public:
  // Takes the lock (kConflict when another process has it), finishes a committed journal, drops an unfinished one, and
  // reads the state. A checkpoint without a state is digested by one full read. `state_directory` must be on a local
  // file system; it is made if missing.
  static Result<CanonicalCheckpoint> Open(const Path& directory, const Path& state_directory, int threads,
                                          Progress& progress);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const CheckpointState& state() const { return state_; }

  // Moves to the patch's target:
  //   1. decode every block against the current bytes, verify, write it to the journal   crash: old version
  //   2. make the journal durable and rename it to its final name                        crash: old, from here on new
  //   3. write the changed units and side files, make them durable                       crash: replayed at Open
  //   4. replace the state                                                               crash: replayed at Open
  //   5. remove the journal                                                              crash: replayed at Open
  // Anything wrong with patch, base or free space is found in step 1, before the checkpoint is touched. Where the
  // tensors are the target's already, only side files and label are written. Not for patches that change the layout
  // (see rebuild.h).
  Result<ApplyReceipt> Apply(const PatchSet& patches, const VersionLabel& label, int threads, Progress& progress);

  // Says that what is here is this version: the same bytes can be a version of several runs (a fork).
  Status Relabel(const VersionLabel& label);

 private:
  Status Recover();
  Status Reopen();
  // Step 1 and 2 of Apply.
  Status WriteJournal(const PatchSet& patches, const VersionLabel& label, int threads, Progress& progress,
                      JournalWriter& journal, ApplyReceipt& receipt);
  // Steps 3 to 5; idempotent. `kept` spares reading the records back.
  Status Replay(const std::vector<JournalRecord>* kept, int threads, ApplyReceipt& receipt);
  bool HasTarget(const PatchSet& patches) const;
  Status CheckSideFilePlaces(const Patch& patch) const;
  Status WriteSideFiles(const std::vector<SideFileChange>& files) const;

  Path directory_, state_directory_;
  std::optional<FileLock> lock_;
  Checkpoint checkpoint_;
  ShardFiles shards_;
  CheckpointState state_;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_CANONICAL_CHECKPOINT_H_
