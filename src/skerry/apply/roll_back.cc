#include "skerry/apply/roll_back.h"

#include <algorithm>

#include "skerry/apply/beside.h"
#include "skerry/apply/canonical_move.h"
#include "skerry/apply/merged_steps.h"
#include "skerry/apply/moved_words.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/parallel.h"

namespace skerry {
namespace {

// A window of the merged steps against the bytes that are there.
struct Part {
  JournalRecord record;
  ByteSpan old;
  Bytes scratch;  // where `old` is, if the host maps no files
  RunningDigest moved;
};

Result<Part> ReadPart(const MergedSteps& steps, const MergedSteps::Window& window, const ShardFiles& shards) {
  Part part{.record = {.tensor = window.tensor, .first_unit = window.first_unit, .units = window.units}};
  SKERRY_ASSIGN(part.record.changes, steps.Changes(window));
  const auto unit = static_cast<uint64_t>(part.record.changes.unit);
  SKERRY_ASSIGN(part.old, shards.Read(window.tensor, window.first_unit * unit, window.units * unit, part.scratch));
  const uint64_t first_word = window.first_unit * unit / 8;
  const BlockChanges& changes = part.record.changes;
  part.moved = changes.all ? DigestWords(changes.values, first_word) - DigestWords(part.old, first_word)
                           : MovedWords(changes, part.old, [&](uint64_t word) { return first_word + word; });
  return part;
}

std::string Described(const std::vector<VersionMark>& versions) {
  if (versions.empty()) return "it reaches no other version";
  const auto older = [](const VersionMark& a, const VersionMark& b) { return a.label.version < b.label.version; };
  const VersionMark& oldest = *std::min_element(versions.begin(), versions.end(), older);
  return fmt::format("the oldest that it reaches is {}", oldest.label.Describe());
}

}  // namespace

Result<std::vector<VersionLabel>> CanonicalCheckpoint::WaysBack() const {
  SKERRY_ASSIGN(const UndoLog log, UndoLog::Read(state_directory_));
  std::vector<VersionLabel> labels;
  for (const VersionMark& mark : log.Reachable(VersionMark::Of(state_))) labels.push_back(mark.label);
  return labels;
}

Result<ApplyReceipt> CanonicalCheckpoint::RollBack(const VersionLabel& target, int threads, Progress& progress) {
  SKERRY_TRY(Recover());  // of an earlier call that failed half way
  if (state_.label == target) return ApplyReceipt();
  SKERRY_ASSIGN(UndoLog log, UndoLog::Read(state_directory_));
  const VersionMark present = VersionMark::Of(state_);
  const std::vector<UndoStep> way = log.WayBack(present, target);
  if (way.empty()) {
    return Fail(Code::kNotFound, "{}: the undo log does not lead from {} to {}; {}", directory_.string(),
                present.label.Describe(), target.Describe(), Described(log.Reachable(present)));
  }
  Stopwatch watch;
  SKERRY_ASSIGN(const MergedSteps steps, MergedSteps::Open(way, checkpoint_.layout()));
  SKERRY_TRY(CheckSideFilePlaces(steps.side_files()));
  SKERRY_TRY(RequireSpaceFor(
      JournalBytes(steps.MostChanged(), WidestUnit(), steps.windows().size(), checkpoint_.layout().tensors().size()),
      steps.side_files(), /*with_undo=*/true));
  SKERRY_ASSIGN(Move move, BeginMove(VersionMark::Of(steps.from()), /*with_undo=*/true));
  Status prepared = WriteUndone(steps, threads, progress, move);
  move.receipt.decode_seconds = watch.Lap() - move.receipt.journal_seconds;
  if (prepared) prepared = CommitMove(steps.side_files(), steps.from(), move);
  if (!prepared) {
    GiveUp(move);
    return tl::unexpected<Error>(std::move(prepared).error());
  }
  SKERRY_TRY(FinishMove(threads, move));
  // The step just recorded leads forward again to where they led.
  for (const UndoStep& step : way) (void)log.Remove(step);
  SKERRY_TRY(PruneUndo());
  return move.receipt;
}

// Fills the move's files, and proves that the result is the version it shall be.
Status CanonicalCheckpoint::WriteUndone(const MergedSteps& steps, int threads, Progress& progress, Move& move) {
  SKERRY_TRY(Failpoint("rollback.begun"));
  const auto& windows = steps.windows();
  std::vector<RunningDigest> digests = state_.tensors;
  progress.Begin("undo", steps.bytes());
  SKERRY_TRY(ParallelOrdered<Part>(
      windows.size(), threads, [&](size_t i) { return ReadPart(steps, windows[i], shards_); },
      [&](size_t i, Part part) -> Status {
        digests[windows[i].tensor] += part.moved;
        move.receipt.changed += part.record.changes.count();
        progress.Advance(steps.bytes() / windows.size());
        // A span into `scratch` stays valid when that is moved.
        return move.Add(std::move(part.record), part.old);
      }));
  SKERRY_TRY(shards_.Check());
  const CheckpointState& wanted = steps.from();
  const Layout& layout = checkpoint_.layout();
  for (size_t i = 0; i < digests.size(); ++i) {
    if (digests[i] == wanted.tensors[i]) continue;
    const LayoutTensor& tensor = layout.tensors()[i];
    return Fail(Code::kCorrupt,
                "{}: tensor '{}' in {} would have digest {:016x}{:016x}, but {} had {:016x}{:016x}: the checkpoint's "
                "bytes are not what its state says, or the undo log is damaged",
                directory_.string(), tensor.name, layout.files()[tensor.file].name, digests[i].a, digests[i].b,
                wanted.label.Describe(), wanted.tensors[i].a, wanted.tensors[i].b);
  }
  const Digest model = ModelDigest(layout.tensors_digest(), digests);
  if (model != wanted.model) {
    return Fail(Code::kCorrupt, "{}: the undo log leads to model digest {}, but says that {} has {}",
                directory_.string(), model.Short(), wanted.label.Describe(), wanted.model.Short());
  }
  return Failpoint("rollback.proved");
}

Result<ApplyReceipt> RollBackCheckpoint(const Path& directory, const VersionLabel& target,
                                        const CanonicalOptions& options, int threads, Progress& progress) {
  const Path named = NamedDirectory(directory), state_directory = DefaultStateDirectory(named);
  SKERRY_ASSIGN([[maybe_unused]] const FileLock lock, FileLock::Acquire(Beside(named, "lock")));
  SKERRY_ASSIGN(const std::optional<CheckpointState> state, ReadState(state_directory));
  if (!state && !JournalExists(state_directory)) {
    return Fail(Code::kNotFound, "{} holds no checkpoint with a state", named.string());
  }
  SKERRY_ASSIGN(CanonicalCheckpoint canonical,
                CanonicalCheckpoint::Open(named, state_directory, threads, progress, options));
  return canonical.RollBack(target, threads, progress);
}

}  // namespace skerry
