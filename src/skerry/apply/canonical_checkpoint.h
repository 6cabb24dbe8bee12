// The canonical checkpoint of an island (or a publisher's snapshot): a complete Hugging Face directory that moves from
// version to version in place and survives a kill at any instant.
#ifndef SKERRY_APPLY_CANONICAL_CHECKPOINT_H_
#define SKERRY_APPLY_CANONICAL_CHECKPOINT_H_

#include <chrono>
#include <optional>
#include <vector>

#include "skerry/apply/journal.h"
#include "skerry/apply/patch_set.h"
#include "skerry/apply/shard_files.h"
#include "skerry/apply/state.h"
#include "skerry/apply/undo_log.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

class MergedSteps;

struct ApplyReceipt {
  uint64_t changed = 0;
  uint64_t journal_bytes = 0;
  uint64_t undo_bytes = 0;     // of the entry that the undo log got
  double decode_seconds = 0;   // decode and verify, while readers still see the old version
  double journal_seconds = 0;  // writing the journal and making it durable, and the undo log's entry
  double write_seconds = 0;    // writing the changed units
  double sync_seconds = 0;     // making them durable
  double wait_seconds = 0;     // for those who still read the files
};

struct CanonicalOptions {
  // What Apply and RollBack keep for a way back (undo_log.h).
  UndoPolicy undo;
  // How long they wait for those who read the files under ContentLock; then kUnavailable, and nothing is changed.
  std::chrono::milliseconds content_patience{600'000};
};

// Holds the state directory's lock for its lifetime: one writer at a time, on one thread.
class CanonicalCheckpoint {
 public:
  // Takes the lock (kConflict when another process has it), finishes a committed journal (when nobody reads the files
  // any longer), drops an unfinished one, and reads the state. A checkpoint without a state is digested by one full
  // read. `state_directory` must be on a local file system; it is made if missing.
  static Result<CanonicalCheckpoint> Open(const Path& directory, const Path& state_directory, int threads,
                                          Progress& progress, const CanonicalOptions& options = {});

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const CheckpointState& state() const { return state_; }

  // Moves to the patch's target:
  //   1. decode every block against the current bytes, verify, write it to the journal, and with an undo log the bytes
  //      that it replaces to an entry                                    crash: old version
  //   2. make the entry durable and rename it to its final name          crash: old version; the entry leads from where
  //                                                                      nobody is
  //   3. wait until nobody reads the files, make the journal durable and rename it to its final name
  //                                                                      crash: old, from here on new
  //   4. write the changed units and side files, make them durable       crash: replayed at Open
  //   5. replace the state                                               crash: replayed at Open
  //   6. remove the journal                                              crash: replayed at Open
  //   7. remove entries that are too many or lead nowhere                crash: the next move does it
  // Anything wrong with patch, base or free space is found in step 1, before the checkpoint is touched. Where the
  // tensors are the target's already, only side files and label are written. Not for patches that change the layout
  // (see rebuild.h).
  Result<ApplyReceipt> Apply(const PatchSet& patches, const VersionLabel& label, int threads, Progress& progress);

  // Moves to a version that the undo log leads back to (or, after a rollback, forward to), in one step as Apply does,
  // over however many versions. What the log holds is proved before anything is written: laid over the bytes that are
  // there it must give the running digests that the version had, else kCorrupt. kNotFound, naming the versions that can
  // be reached, where no unbroken chain leads there: the caller goes through the board. The undone steps leave the log;
  // the way forward again is recorded as one step.
  Result<ApplyReceipt> RollBack(const VersionLabel& target, int threads, Progress& progress);
  // Where RollBack can go, from the nearest to the farthest.
  Result<std::vector<VersionLabel>> WaysBack() const;

  // Says that what is here is this version: the same bytes can be a version of several runs (a fork).
  Status Relabel(const VersionLabel& label);

 private:
  // What a move needs until it is done (canonical_move.h); the steps that Apply and RollBack share.
  struct Move;
  Result<Move> BeginMove(const VersionMark& to, bool with_undo);
  Status CommitMove(const std::vector<SideFileChange>& side_files, const CheckpointState& next, Move& move);
  void GiveUp(Move& move) const;
  Status FinishMove(int threads, Move& move);
  Status PruneUndo();

  Status Recover();
  Status Reopen();
  // Steps 1 to 3 of Apply.
  Status WriteJournal(const PatchSet& patches, const VersionLabel& label, int threads, Progress& progress, Move& move);
  // The same for RollBack, step 1.
  Status WriteUndone(const MergedSteps& steps, int threads, Progress& progress, Move& move);
  // Steps 4 to 6; idempotent. `kept` spares reading the records back. Under ContentLock.
  Status Replay(const std::vector<JournalRecord>* kept, int threads, ApplyReceipt& receipt);
  bool HasTarget(const PatchSet& patches) const;
  int WidestUnit() const;
  Status RequireSpaceFor(uint64_t journal_bytes, const std::vector<SideFileChange>& files, bool with_undo) const;
  Status CheckSideFilePlaces(const std::vector<SideFileChange>& files) const;
  Status WriteSideFiles(const std::vector<SideFileChange>& files) const;
  Result<std::vector<SideFileChange>> OldSideFiles(const std::vector<SideFileChange>& files) const;

  Path directory_, state_directory_;
  CanonicalOptions options_;
  std::optional<FileLock> lock_;
  Checkpoint checkpoint_;
  ShardFiles shards_;
  CheckpointState state_;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_CANONICAL_CHECKPOINT_H_
