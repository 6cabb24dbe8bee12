#include "skerry/apply/canonical_checkpoint.h"

#include <atomic>
#include <set>

#include "skerry/apply/canonical_move.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/parallel.h"
#include "skerry/base/temporary.h"

namespace skerry {

// The directory may hold more than the checkpoint: what is in the way of a new side file is found before the journal is
// committed.
Status CanonicalCheckpoint::CheckSideFilePlaces(const std::vector<SideFileChange>& files) const {
  namespace fs = std::filesystem;
  std::error_code error;
  std::set<Path> removed;
  for (const SideFileChange& file : files) {
    if (!file.content) removed.insert(directory_ / file.path);
  }
  for (const SideFileChange& file : files) {
    if (!file.content) continue;
    const Path path = directory_ / file.path;
    if (fs::is_directory(path, error)) {
      for (auto entry = fs::recursive_directory_iterator(path, error); entry != fs::recursive_directory_iterator();
           entry.increment(error)) {
        if (error) return ErrnoFailure(error.value(), "list", path);
        if (!entry->is_directory(error) && removed.count(entry->path()) == 0) {
          return Fail(Code::kInvalid, "{} is in the way of the new file {}", entry->path().string(), path.string());
        }
      }
    }
    for (Path parent = path.parent_path(); parent != directory_ && !parent.empty(); parent = parent.parent_path()) {
      if (fs::exists(parent, error) && !fs::is_directory(parent, error) && removed.count(parent) == 0) {
        return Fail(Code::kInvalid, "{} is in the way of the new file {}", parent.string(), path.string());
      }
    }
  }
  return {};
}

Status CanonicalCheckpoint::WriteSideFiles(const std::vector<SideFileChange>& files) const {
  std::error_code error;
  // Removals first: a folder may become a file, and a file a folder.
  for (const SideFileChange& file : files) {
    SKERRY_TRY(CheckRelativePath(file.path));
    const Path path = directory_ / file.path;
    if (file.content || !std::filesystem::is_regular_file(path, error)) continue;
    SKERRY_TRY(RemoveTree(path));
    SKERRY_TRY(SyncDirectory(path.parent_path()));
  }
  for (const SideFileChange& file : files) {
    if (!file.content) continue;
    const Path path = directory_ / file.path;
    if (std::filesystem::is_directory(path, error)) SKERRY_TRY(RemoveTree(path));
    SKERRY_TRY(MakeDirectories(path.parent_path()));
    SKERRY_TRY(WriteFileAtomically(path, *file.content));
  }
  return {};
}

Status CanonicalCheckpoint::Replay(const std::vector<JournalRecord>* kept, int threads, ApplyReceipt& receipt) {
  Stopwatch watch;
  std::atomic<bool> first = true;
  const auto write = [&](const JournalRecord& record) -> Status {
    SKERRY_TRY(shards_.Write(record.tensor, record.first_unit, record.units, record.changes));
    return first.exchange(false) ? Failpoint("apply.tensors_half_written") : Status();
  };
  if (kept != nullptr) {
    SKERRY_TRY(ParallelFor(kept->size(), threads, [&](size_t i) { return write((*kept)[i]); }));
    receipt.write_seconds = watch.Lap();
  }
  // Where the records are at hand, only the end is read back.
  std::function<Status(const JournalRecord&)> read;
  if (kept == nullptr) read = write;
  SKERRY_ASSIGN(const JournalEnd end, ReadJournal(state_directory_, read));
  if (kept == nullptr) receipt.write_seconds = watch.Lap();
  watch.Lap();
  SKERRY_TRY(shards_.Sync());
  receipt.sync_seconds = watch.Lap();
  SKERRY_TRY(Failpoint("apply.tensors_written"));
  SKERRY_TRY(WriteSideFiles(end.side_files));
  SKERRY_TRY(Failpoint("apply.files_written"));
  SKERRY_TRY(WriteState(state_directory_, end.new_state));
  SKERRY_TRY(Failpoint("apply.state_written"));
  SKERRY_TRY(RemoveJournal(state_directory_));
  state_ = end.new_state;
  return Failpoint("apply.journal_removed");
}

Status CanonicalCheckpoint::Reopen() {
  SKERRY_ASSIGN(checkpoint_, Checkpoint::Open(directory_));
  if (shards_.layout().digest() == checkpoint_.layout().digest()) return {};
  SKERRY_ASSIGN(shards_, ShardFiles::Open(directory_, checkpoint_.layout()));
  return {};
}

// The tensors are the target's already: by an apply that was stopped before its caller could note it, or because they
// went there and back. Then only side files and label are left to write.
bool CanonicalCheckpoint::HasTarget(const PatchSet& patches) const {
  return patches.target_model() == state_.model && patches.base_model() != state_.model;
}

Status CanonicalCheckpoint::Recover() {
  if (!JournalExists(state_directory_)) return {};
  // The index is a side file and may be half replaced; shards and their headers never change in place.
  SKERRY_TRY(Reopen());
  SKERRY_ASSIGN([[maybe_unused]] const ContentLock lock,
                ContentLock::ForWriting(directory_, options_.content_patience));
  ApplyReceipt receipt;
  return Replay(nullptr, 1, receipt);
}

Result<CanonicalCheckpoint> CanonicalCheckpoint::Open(const Path& directory, const Path& state_directory, int threads,
                                                      Progress& progress, const CanonicalOptions& options) {
  CanonicalCheckpoint canonical;
  canonical.options_ = options;
  canonical.directory_ = directory;
  canonical.state_directory_ = state_directory;
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return Fail(Code::kNotFound, "checkpoint {} does not exist", directory.string());
  }
  SKERRY_TRY(MakeDirectories(state_directory));
  SKERRY_ASSIGN(canonical.lock_, FileLock::TryAcquire(state_directory / "lock"));
  SweepTemporaries(state_directory);
  SweepTemporariesBelow(directory);
  SKERRY_TRY(canonical.Recover());
  SKERRY_TRY(canonical.Reopen());
  const Layout& layout = canonical.checkpoint_.layout();
  SKERRY_ASSIGN(std::optional<CheckpointState> state, ReadState(state_directory));
  if (!state) {
    SKERRY_ASSIGN(std::vector<RunningDigest> digests, DigestTensors(canonical.checkpoint_, threads, progress));
    const Digest model = ModelDigest(layout.tensors_digest(), digests);
    canonical.state_ = {.label = {}, .layout = layout.digest(), .model = model, .tensors = std::move(digests)};
    return canonical;
  }
  if (state->layout != layout.digest()) {
    return Fail(Code::kCorrupt, "{}: files have layout {}, but its state says {}: the directory was changed",
                directory.string(), layout.digest().Short(), state->layout.Short());
  }
  if (state->tensors.size() != layout.tensors().size() ||
      ModelDigest(layout.tensors_digest(), state->tensors) != state->model) {
    return Fail(Code::kCorrupt, "{}: its state does not add up to model digest {}", directory.string(),
                state->model.Short());
  }
  canonical.state_ = *std::move(state);
  return canonical;
}

Result<ApplyReceipt> CanonicalCheckpoint::Apply(const PatchSet& patches, const VersionLabel& label, int threads,
                                                Progress& progress) {
  SKERRY_TRY(Recover());  // of an earlier call that failed half way
  const Layout& layout = checkpoint_.layout();
  if (!HasTarget(patches)) SKERRY_TRY(patches.CheckBase(layout, state_.tensors));
  if (const Patch* patch = patches.whole()) {
    SKERRY_TRY(CheckPlacement(*patch, layout));
    SKERRY_ASSIGN(const Layout target, TargetLayout(*patch, layout));
    if (target.digest() != layout.digest()) {
      return Fail(Code::kInvalid, "{}: changes the layout of the files, which can't be done in place", patch->name());
    }
  }
  SKERRY_TRY(CheckTargetPaths(patches.first(), checkpoint_, layout));
  const std::vector<SideFileChange>& side_files = patches.first().head().side_files;
  SKERRY_TRY(CheckSideFilePlaces(side_files));

  const uint64_t journal_bytes = JournalBytes(patches.changed() + patches.dense_cells() * kCellUnits, WidestUnit(),
                                              patches.blocks(), layout.tensors().size());
  const bool with_undo = options_.undo.versions > 0;
  SKERRY_TRY(RequireSpaceFor(journal_bytes, side_files, with_undo));
  SKERRY_ASSIGN(Move move, BeginMove({label, layout.digest(), patches.target_model()}, with_undo));
  if (Status written = WriteJournal(patches, label, threads, progress, move); !written) {
    GiveUp(move);
    return tl::unexpected<Error>(std::move(written).error());
  }
  SKERRY_TRY(FinishMove(threads, move));
  SKERRY_TRY(PruneUndo());
  return move.receipt;
}

int CanonicalCheckpoint::WidestUnit() const {
  int widest = 1;
  for (const LayoutTensor& tensor : checkpoint_.layout().tensors()) widest = std::max(widest, DTypeUnit(tensor.dtype));
  return widest;
}

// An undo entry is as large as a journal, with the side files' old content.
Status CanonicalCheckpoint::RequireSpaceFor(uint64_t journal_bytes, const std::vector<SideFileChange>& files,
                                            bool with_undo) const {
  uint64_t new_bytes = 0, old_bytes = 0;
  std::error_code error;
  for (const SideFileChange& file : files) {
    new_bytes += file.content ? file.content->size() : 0;
    const uint64_t size = std::filesystem::file_size(directory_ / file.path, error);
    if (!error) old_bytes += size;
  }
  SKERRY_TRY(RequireSpace(state_directory_, journal_bytes + new_bytes + (with_undo ? journal_bytes + old_bytes : 0),
                          with_undo ? "the journal and the undo log" : "the journal"));
  return RequireSpace(directory_, new_bytes, "new side files");
}

Status CanonicalCheckpoint::WriteJournal(const PatchSet& patches, const VersionLabel& label, int threads,
                                         Progress& progress, Move& move) {
  SKERRY_TRY(Failpoint("apply.journal_begun"));
  if (move.undo) SKERRY_TRY(Failpoint("undo.begun"));
  const Stopwatch total;
  Bytes scratch;
  const auto add = [&](RunChanges part) -> Status {
    const BlockRun& run = part.run;
    ByteSpan old;
    if (move.undo) {
      const auto unit = static_cast<uint64_t>(part.changes.unit);
      SKERRY_ASSIGN(old, shards_.Read(run.tensor, run.first_unit * unit, run.units * unit, scratch));
    }
    return move.Add({.tensor = static_cast<uint32_t>(run.tensor),
                     .first_unit = run.first_unit,
                     .units = run.units,
                     .changes = std::move(part.changes)},
                    old);
  };
  const Layout& layout = checkpoint_.layout();
  std::vector<RunningDigest> digests = state_.tensors;
  if (!HasTarget(patches)) {
    move.receipt.changed = patches.changed();
    SKERRY_ASSIGN(digests, patches.DecodeVerified(shards_, state_.tensors, layout, threads, progress, add));
  }
  // With several threads the journal is written while others decode.
  move.receipt.decode_seconds = total.Seconds() - (threads == 1 ? move.receipt.journal_seconds : 0);
  SKERRY_TRY(Failpoint("apply.journal_written"));
  const CheckpointState next{
      .label = label, .layout = layout.digest(), .model = patches.target_model(), .tensors = std::move(digests)};
  return CommitMove(patches.first().head().side_files, next, move);
}

Status CanonicalCheckpoint::Relabel(const VersionLabel& label) {
  if (state_.label == label) return {};
  CheckpointState next = state_;
  next.label = label;
  SKERRY_ASSIGN(const UndoLog log, UndoLog::Read(state_directory_));
  if (!log.steps().empty() && label.version && state_.label.version) {
    // A step without changes, so that the way back does not end here.
    SKERRY_ASSIGN(UndoWriter step, UndoWriter::Begin(state_directory_, VersionMark::Of(state_), VersionMark::Of(next)));
    SKERRY_TRY(step.Commit({}, state_));
  }
  SKERRY_TRY(WriteState(state_directory_, next));
  state_ = std::move(next);
  return {};
}

}  // namespace skerry
