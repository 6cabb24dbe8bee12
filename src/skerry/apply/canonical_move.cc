#include "skerry/apply/canonical_move.h"

#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"

namespace skerry {
namespace {

// The bytes that `changes` will replace in a run of units.
BlockChanges OldValues(const BlockChanges& changes, ByteSpan old) {
  const auto unit = static_cast<size_t>(changes.unit);
  BlockChanges values{.unit = changes.unit, .all = changes.all, .positions = changes.positions};
  if (changes.all) {
    values.values = ToBytes(old);
    return values;
  }
  values.values.resize(changes.positions.size() * unit);
  for (size_t i = 0; i < changes.positions.size(); ++i) {
    std::memcpy(values.values.data() + i * unit, old.data() + size_t{changes.positions[i]} * unit, unit);
  }
  return values;
}

}  // namespace

Status CanonicalCheckpoint::Move::Add(JournalRecord record, ByteSpan old) {
  const Stopwatch watch;
  if (undo) {
    SKERRY_TRY(undo->Add({.tensor = record.tensor,
                          .first_unit = record.first_unit,
                          .units = record.units,
                          .changes = OldValues(record.changes, old)}));
  }
  SKERRY_TRY(journal.Add(std::move(record)));
  receipt.journal_seconds += watch.Seconds();
  return {};
}

Result<CanonicalCheckpoint::Move> CanonicalCheckpoint::BeginMove(const VersionMark& to, bool with_undo) {
  const VersionMark from = VersionMark::Of(state_);
  Move move;
  SKERRY_ASSIGN(move.journal, JournalWriter::Begin(state_directory_));
  // Without a label it can't be told which side files a version has.
  if (!with_undo || !from.label.version || !to.label.version || from == to) return move;
  auto undo = UndoWriter::Begin(state_directory_, from, to);
  if (!undo) {
    move.journal.Abandon();
    return tl::unexpected<Error>(std::move(undo).error());
  }
  move.undo = *std::move(undo);
  return move;
}

// The content of the files that a move will write or remove.
Result<std::vector<SideFileChange>> CanonicalCheckpoint::OldSideFiles(const std::vector<SideFileChange>& files) const {
  std::vector<SideFileChange> old;
  std::error_code error;
  for (const SideFileChange& file : files) {
    SKERRY_TRY(CheckRelativePath(file.path));
    old.push_back({.path = file.path, .content = std::nullopt});
    if (!std::filesystem::is_regular_file(directory_ / file.path, error)) continue;
    SKERRY_ASSIGN(old.back().content, ReadFile(directory_ / file.path, kMaxSideFileBytes));
  }
  return old;
}

Status CanonicalCheckpoint::CommitMove(const std::vector<SideFileChange>& side_files, const CheckpointState& next,
                                       Move& move) {
  Stopwatch watch;
  if (move.undo) {
    SKERRY_ASSIGN(const std::vector<SideFileChange> old, OldSideFiles(side_files));
    SKERRY_TRY(move.undo->Commit(old, state_));
    SKERRY_TRY(Failpoint("undo.durable"));
    move.receipt.undo_bytes = move.undo->bytes();
  }
  move.receipt.journal_seconds += watch.Lap();
  SKERRY_ASSIGN(move.content, ContentLock::ForWriting(directory_, options_.content_patience));
  move.receipt.wait_seconds += watch.Lap();
  SKERRY_TRY(move.journal.Commit(side_files, next));
  move.receipt.journal_bytes = move.journal.bytes();
  move.receipt.journal_seconds += watch.Lap();
  return Failpoint("apply.journal_committed");
}

// Of a move that failed before its journal was committed.
void CanonicalCheckpoint::GiveUp(Move& move) const {
  if (JournalExists(state_directory_)) return;
  move.journal.Abandon();
  if (move.undo) move.undo->Abandon();
}

Status CanonicalCheckpoint::FinishMove(int threads, Move& move) {
  // Who came for the first time since the lock was asked for has seen the journal, or is waited for here.
  if (!move.content.held()) {
    SKERRY_ASSIGN(move.content, ContentLock::ForWriting(directory_, options_.content_patience));
  }
  SKERRY_TRY(Replay(move.journal.kept(), threads, move.receipt));
  move.content = ContentLock();
  return Reopen();
}

Status CanonicalCheckpoint::PruneUndo() {
  std::error_code error;
  if (!std::filesystem::exists(UndoDirectory(state_directory_), error)) return {};
  SKERRY_ASSIGN(UndoLog log, UndoLog::Read(state_directory_));
  // What can't be removed does no harm, and the next move tries again.
  (void)log.Prune(VersionMark::Of(state_), options_.undo);
  return Failpoint("undo.pruned");
}

}  // namespace skerry
