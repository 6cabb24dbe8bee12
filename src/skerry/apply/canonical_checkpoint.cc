#include "skerry/apply/canonical_checkpoint.h"

#include "skerry/apply/journal.h"
#include "skerry/apply/shard_writer.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"

namespace skerry {
namespace {

struct ReplayTimes {
  double write_seconds = 0, sync_seconds = 0;
};

Status WriteSideFiles(const Path& directory, const std::vector<SideFileChange>& files) {
  for (const SideFileChange& file : files) {
    SKERRY_TRY(CheckRelativePath(file.path));
    const Path path = directory / file.path;
    if (file.content) {
      SKERRY_TRY(MakeDirectories(path.parent_path()));
      SKERRY_TRY(WriteFileAtomically(path, *file.content));
    } else {
      std::error_code error;
      std::filesystem::remove(path, error);
      if (error) return ErrnoFailure(error.value(), "remove", path);
    }
  }
  return {};
}

// Steps 3 to 5 of Apply; idempotent.
Result<ReplayTimes> Replay(const Path& directory, const Path& state_directory, const Layout& layout) {
  ReplayTimes times;
  Stopwatch watch;
  SKERRY_ASSIGN(ShardWriter shards, ShardWriter::Open(directory, layout));
  bool first = true;
  SKERRY_ASSIGN(const JournalEnd end, ReadJournal(state_directory, [&](JournalRecord& record) -> Status {
                  SKERRY_TRY(shards.Write(record.tensor, record.first_unit, record.units, record.changes));
                  if (first) SKERRY_TRY(Failpoint("apply.tensors_half_written"));
                  first = false;
                  return {};
                }));
  times.write_seconds = watch.Lap();
  SKERRY_TRY(shards.Sync());
  times.sync_seconds = watch.Lap();
  SKERRY_TRY(Failpoint("apply.tensors_written"));
  SKERRY_TRY(WriteSideFiles(directory, end.side_files));
  SKERRY_TRY(Failpoint("apply.files_written"));
  SKERRY_TRY(WriteState(state_directory, end.new_state));
  SKERRY_TRY(Failpoint("apply.state_written"));
  SKERRY_TRY(RemoveJournal(state_directory));
  SKERRY_TRY(Failpoint("apply.journal_removed"));
  return times;
}

}  // namespace

Status CanonicalCheckpoint::Reopen() {
  SKERRY_ASSIGN(checkpoint_, Checkpoint::Open(directory_));
  return {};
}

Status CanonicalCheckpoint::Recover() {
  if (!JournalExists(state_directory_)) return {};
  // The index is a side file and may be half replaced; shards and their headers never change in place.
  SKERRY_TRY(Reopen());
  SKERRY_ASSIGN([[maybe_unused]] const ReplayTimes times, Replay(directory_, state_directory_, checkpoint_.layout()));
  return {};
}

Result<CanonicalCheckpoint> CanonicalCheckpoint::Open(const Path& directory, const Path& state_directory, int threads,
                                                      Progress& progress) {
  CanonicalCheckpoint canonical;
  canonical.directory_ = directory;
  canonical.state_directory_ = state_directory;
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return Fail(Code::kNotFound, "checkpoint {} does not exist", directory.string());
  }
  SKERRY_TRY(MakeDirectories(state_directory));
  SKERRY_ASSIGN(canonical.lock_, FileLock::TryAcquire(state_directory / "lock"));
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

Result<ApplyReceipt> CanonicalCheckpoint::Apply(const Patch& patch, const VersionLabel& label, int threads,
                                                Progress& progress) {
  const Layout layout = checkpoint_.layout();
  ApplyReceipt receipt;
  if (patch.info().target_model == state_.model && patch.info().base_model != state_.model) {
    // Applied already, by a run that was stopped before it could say so.
    state_.label = label;
    SKERRY_TRY(WriteState(state_directory_, state_));
    return receipt;
  }
  SKERRY_TRY(CheckBase(patch, layout, state_.tensors));
  if (patch.info().structural ||
      (patch.info().base_layout != patch.info().target_layout && patch.info().target_layout != layout.digest())) {
    return Fail(Code::kInvalid, "{}: changes the layout of the files, which can't be done in place", patch.name());
  }

  Stopwatch watch;
  int widest = 1;
  for (const LayoutTensor& tensor : layout.tensors()) widest = std::max(widest, DTypeUnit(tensor.dtype));
  uint64_t side_bytes = 0, dense_units = 0;
  for (const SideFileChange& file : patch.head().side_files) side_bytes += file.content ? file.content->size() : 0;
  for (const BlockEntry& block : patch.head().blocks) {
    if (block.method == Method::kDense) dense_units += uint64_t{block.cells} * kCellUnits;
  }
  const uint64_t journal_bytes = JournalBytes(patch.info().changed + dense_units, widest, patch.info().blocks,
                                              layout.tensors().size());
  SKERRY_TRY(RequireSpace(state_directory_, journal_bytes + side_bytes, "the journal"));
  SKERRY_TRY(RequireSpace(directory_, side_bytes, "new side files"));

  SKERRY_ASSIGN(JournalWriter journal, JournalWriter::Begin(state_directory_));
  const auto write_journal = [&]() -> Status {
    SKERRY_TRY(Failpoint("apply.journal_begun"));
    JournalRecord record;
    SKERRY_ASSIGN(std::vector<RunningDigest> digests,
                  DecodeVerified(patch, checkpoint_, state_.tensors, layout, threads, progress,
                                 [&](const PlacedBlock& block, BlockChanges changes) {
                                   receipt.changed += block.entry.changed;
                                   record = {.tensor = static_cast<uint32_t>(block.tensor),
                                             .first_unit = block.first_unit,
                                             .units = block.units,
                                             .changes = std::move(changes)};
                                   return journal.Add(record);
                                 }));
    receipt.decode_seconds = watch.Lap();
    SKERRY_TRY(Failpoint("apply.journal_written"));
    const CheckpointState next{.label = label,
                               .layout = layout.digest(),
                               .model = patch.info().target_model,
                               .tensors = std::move(digests)};
    SKERRY_TRY(journal.Commit(patch.head().side_files, next));
    receipt.journal_seconds = watch.Lap();
    receipt.journal_bytes = journal.bytes();
    return Failpoint("apply.journal_committed");
  };
  if (Status written = write_journal(); !written) {
    if (!JournalExists(state_directory_)) journal.Abandon();
    return tl::unexpected<Error>(std::move(written).error());
  }
  SKERRY_ASSIGN(const ReplayTimes times, Replay(directory_, state_directory_, layout));
  receipt.write_seconds = times.write_seconds;
  receipt.sync_seconds = times.sync_seconds;
  SKERRY_TRY(Reopen());
  SKERRY_ASSIGN(const std::optional<CheckpointState> state, ReadState(state_directory_));
  if (!state) return Fail(Code::kIo, "{} vanished", (state_directory_ / "state.json").string());
  state_ = *state;
  return receipt;
}

}  // namespace skerry
