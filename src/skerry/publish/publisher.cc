#include "skerry/publish/publisher.h"

#include <cstdlib>
#include <map>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/catch_up.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/temporary.h"
#include "skerry/board/keys.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/file_sink.h"
#include "skerry/patch/side_files.h"
#include "skerry/publish/version_objects.h"

namespace skerry {
namespace {

// A random id that stays with the state directory: whoever has it owns the epochs that it opened.
Result<std::string> PublisherId(const Path& state_directory) {
  const Path path = state_directory / "publisher";
  auto bytes = ReadFile(path, 256);
  if (bytes && !bytes->empty()) return ToString(*bytes);
  if (!bytes && bytes.error().code != Code::kNotFound) return tl::unexpected(bytes.error());
  const std::string id = RandomToken();
  SKERRY_TRY(WriteFileAtomically(path, AsBytes(id)));
  return id;
}

class Publication {
 public:
  Publication(const Board& board, const RunId& run, const Checkpoint& checkpoint, const PublishOptions& options,
              const Clock& clock, Progress& progress)
      : board_(board),
        run_(run),
        checkpoint_(checkpoint),
        options_(options),
        clock_(clock),
        progress_(progress),
        snapshot_directory_(options.state_directory / "snapshot"),
        spool_(options.state_directory / "spool.skerry") {}

  Result<PublishReceipt> Run();

 private:
  Result<bool> TakenAlready(const HeadAt& at);
  Status PrepareSnapshot(const HeadAt& at, bool from_scratch);
  Status Encode(const HeadAt& at);
  Status DescribeTargetFiles(const Checkpoint& snapshot, const std::vector<SideFileChange>& changes);
  Status ProveSpool(const Checkpoint& snapshot);
  Status Store(const HeadAt& at);
  Status AdvanceSnapshot();

  const Board& board_;
  const RunId& run_;
  const Checkpoint& checkpoint_;
  const PublishOptions& options_;
  const Clock& clock_;
  Progress& progress_;
  const Path snapshot_directory_, spool_;
  std::string publisher_;
  EncodeReceipt encoded_;
  std::vector<SideFile> side_files_;
  bool files_changed_ = false;
  ObjectRef patch_;
  PublishReceipt receipt_;
};

// Whether the asked number is taken: by these bytes (nothing to do) or by others (an error).
Result<bool> Publication::TakenAlready(const HeadAt& at) {
  if (!options_.version || *options_.version > at.head.version) return false;
  SKERRY_ASSIGN(const Manifest manifest, board_.ReadManifest(at.head, *options_.version));
  SKERRY_ASSIGN(const std::vector<RunningDigest> digests, DigestTensors(checkpoint_, options_.threads, progress_));
  const Digest model = ModelDigest(checkpoint_.layout().tensors_digest(), digests);
  SKERRY_ASSIGN(const std::vector<SideFile> side_files, DescribeSideFiles(checkpoint_));
  if (model != manifest.model || checkpoint_.layout().digest() != manifest.layout ||
      side_files != manifest.side_files) {
    return Fail(Code::kConflict, "version {} of run {} is published with model digest {}, not {}{}", *options_.version,
                run_, manifest.model.Short(), model.Short(),
                model == manifest.model ? ": side files or file layout differ" : "");
  }
  receipt_.version = *options_.version;
  receipt_.model = model;
  receipt_.step = manifest.step;
  return true;
}

Status Publication::PrepareSnapshot(const HeadAt& at, bool from_scratch) {
  if (from_scratch) SKERRY_TRY(RemoveTree(snapshot_directory_));
  CatchUpOptions options{.version = at.head.version, .threads = options_.threads};
  auto caught_up = CatchUp(board_, run_, snapshot_directory_, options, progress_);
  if (!caught_up && caught_up.error().code == Code::kMismatch && !from_scratch) {
    // Another run or another history had this state directory: what it holds is only a cache.
    return PrepareSnapshot(at, /*from_scratch=*/true);
  }
  if (!caught_up) return Annotate(std::move(caught_up).error(), "snapshot");
  return Failpoint("publish.snapshot_ready");
}

Status Publication::Encode(const HeadAt& at) {
  SKERRY_ASSIGN(const Checkpoint snapshot, Checkpoint::Open(snapshot_directory_));
  if (snapshot.layout().tensors_digest() != checkpoint_.layout().tensors_digest()) {
    return Fail(Code::kInvalid, "{} does not have the tensors of run {}: {}", checkpoint_.directory().string(), run_,
                DescribeTensorDifferences(snapshot.layout(), checkpoint_.layout()));
  }
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files, CompareSideFiles(snapshot, checkpoint_));
  side_files_.clear();
  SKERRY_TRY(DescribeTargetFiles(snapshot, side_files));
  files_changed_ = !side_files.empty() || snapshot.layout().digest() != checkpoint_.layout().digest();
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(spool_));
  SKERRY_ASSIGN(encoded_, EncodePatch(snapshot, checkpoint_, std::move(side_files),
                                      {.threads = options_.threads, .level = options_.level, .with_names = false}, sink,
                                      progress_));
  if (encoded_.info.base_model != at.head.model) {
    return Fail(Code::kCorrupt, "snapshot {}: model digest {}, but the head's is {}", snapshot_directory_.string(),
                encoded_.info.base_model.Short(), at.head.model.Short());
  }
  SKERRY_TRY(sink.Commit());
  SKERRY_TRY(ProveSpool(snapshot));
  patch_ = {.size = sink.size(), .sha256 = sink.sha256()};
  return Failpoint("publish.encoded");
}

// What the version's side files are: the snapshot's with the patch's changes. The checkpoint is not asked again, since
// it may have changed since it was compared.
Status Publication::DescribeTargetFiles(const Checkpoint& snapshot, const std::vector<SideFileChange>& changes) {
  std::map<std::string, SideFile> files;
  SKERRY_ASSIGN(std::vector<SideFile> before, DescribeSideFiles(snapshot));
  for (SideFile& file : before) files.emplace(file.path, std::move(file));
  for (const SideFileChange& change : changes) {
    files.erase(change.path);
    if (!change.content) continue;
    files.emplace(change.path,
                  SideFile{.path = change.path, .size = change.content->size(), .sha256 = Sha256::Of(*change.content)});
  }
  for (auto& [path, file] : files) side_files_.push_back(std::move(file));
  return {};
}

// What readers will do, done once before they can: a checkpoint that somebody wrote to while it was compared must not
// become a version that nobody can rebuild.
Status Publication::ProveSpool(const Checkpoint& snapshot) {
  SKERRY_ASSIGN(const Patch patch, Patch::Open(spool_));
  const auto nothing = [](const RunChanges&) -> Status { return {}; };
  const auto proved = DecodeVerified(patch, snapshot, encoded_.base_digests, checkpoint_.layout(), options_.threads,
                                     progress_, nothing);
  if (proved) return {};
  return Fail(Code::kConflict, "{} changed while it was being published: publish it again ({})",
              checkpoint_.directory().string(), proved.error().message);
}

Status Publication::Store(const HeadAt& at) {
  const Version version = at.head.version.Next();
  patch_.key = DeltaKey(run_, version, 0, patch_.sha256);
  SKERRY_ASSIGN(const FileSource source, FileSource::Open(spool_, /*may_hard_link=*/true));
  SKERRY_TRY(board_.PutObject(patch_.key, source));
  SKERRY_TRY(Failpoint("publish.patch_stored"));
  if (encoded_.info.base_layout != encoded_.info.target_layout) {
    SKERRY_ASSIGN([[maybe_unused]] const Digest layout, board_.PutLayout(run_, checkpoint_.layout().Serialize()));
  }
  SKERRY_ASSIGN(const Manifest before, board_.ReadManifest(at.head, at.head.version));
  Manifest manifest{.run = run_,
                    .version = version,
                    .parent = at.head.manifest.sha256,
                    .time = FormatTime(clock_.Now()),
                    .step = options_.step,
                    .layout = encoded_.info.target_layout,
                    .model = encoded_.info.target_model,
                    .nearest_anchor = before.nearest_anchor};
  SKERRY_ASSIGN(manifest.tensor_digests, PutTensorDigests(board_, run_, version, encoded_.target_digests));
  manifest.side_files = side_files_;
  manifest.edges = {{.from = at.head.version, .base_model = at.head.model, .objects = {patch_}}};
  manifest.stats = {.elements = encoded_.info.units,
                    .changed = encoded_.info.changed,
                    .tensors_changed = encoded_.tensors_changed,
                    .checkpoint_bytes = checkpoint_.layout().total_bytes(),
                    .patch_bytes = patch_.size};
  SKERRY_ASSIGN(const ManifestRef staged, board_.StageManifest(manifest));
  SKERRY_TRY(Failpoint("publish.manifest_stored"));

  const bool own_epoch = at.head.publisher == publisher_;
  const Head next{.run = run_,
                  .epoch = own_epoch ? at.head.epoch : at.head.epoch + 1,
                  .version = version,
                  .manifest = staged,
                  .model = manifest.model,
                  .publisher = publisher_,
                  .nonce = RandomToken(),
                  .sequence = at.head.sequence + 1,
                  .time = FormatTime(clock_.Now())};
  SKERRY_ASSIGN([[maybe_unused]] const Generation generation, board_.MoveHead(at.generation, next));
  receipt_.version = version;
  receipt_.published = true;
  SKERRY_TRY(Failpoint("publish.head_moved"));
  SKERRY_TRY(board_.PublishAlias(next));
  return Failpoint("publish.alias_stored");
}

Status Publication::AdvanceSnapshot() {
  // In place where the layout allows it, from the spool; otherwise the next publish builds it from the board.
  if (encoded_.info.base_layout != encoded_.info.target_layout) return {};
  SKERRY_ASSIGN(CanonicalCheckpoint snapshot,
                CanonicalCheckpoint::Open(snapshot_directory_, DefaultStateDirectory(snapshot_directory_),
                                          options_.threads, progress_));
  SKERRY_ASSIGN(const Patch patch, Patch::Open(spool_));
  SKERRY_ASSIGN([[maybe_unused]] const ApplyReceipt applied,
                snapshot.Apply(patch, {run_.str(), receipt_.version}, options_.threads, progress_));
  return Failpoint("publish.snapshot_advanced");
}

Result<PublishReceipt> Publication::Run() {
  SKERRY_TRY(MakeDirectories(options_.state_directory));
  auto lock = FileLock::TryAcquire(options_.state_directory / "lock");
  if (!lock && lock.error().code == Code::kConflict) {
    return Fail(Code::kConflict, "another publisher is at work with state directory {}",
                options_.state_directory.string());
  }
  if (!lock) return tl::unexpected<Error>(std::move(lock).error());
  SweepTemporaries(options_.state_directory);
  SKERRY_ASSIGN(publisher_, PublisherId(options_.state_directory));
  SKERRY_ASSIGN(const HeadAt at, board_.ReadHead(run_));
  if (options_.version && *options_.version > at.head.version.Next()) {
    return Fail(Code::kInvalid, "run {} is at version {}: the next one is {}, not {}", run_, at.head.version,
                at.head.version.Next(), *options_.version);
  }
  SKERRY_ASSIGN(const bool taken, TakenAlready(at));
  if (taken) return receipt_;

  Stopwatch watch;
  SKERRY_TRY(PrepareSnapshot(at, /*from_scratch=*/false));
  receipt_.snapshot_seconds = watch.Lap();
  Status encoded = Encode(at);
  if (!encoded && encoded.error().code == Code::kCorrupt) {
    watch.Lap();
    SKERRY_TRY(PrepareSnapshot(at, /*from_scratch=*/true));
    receipt_.snapshot_seconds += watch.Lap();
    encoded = Encode(at);
  }
  SKERRY_TRY(std::move(encoded));
  const double elapsed = watch.Lap();
  const double worked = encoded_.compare_seconds + encoded_.encode_seconds;
  receipt_.diff_seconds = worked > 0 ? elapsed * encoded_.compare_seconds / worked : elapsed;
  receipt_.encode_seconds = elapsed - receipt_.diff_seconds;
  receipt_.model = encoded_.info.target_model;
  receipt_.step = options_.step;
  receipt_.elements = encoded_.info.units;
  receipt_.changed = encoded_.info.changed;
  receipt_.tensors_changed = encoded_.tensors_changed;
  receipt_.patch_bytes = patch_.size;
  receipt_.checkpoint_bytes = checkpoint_.layout().total_bytes();

  const bool nothing_new = encoded_.info.changed == 0 && !files_changed_;
  if (nothing_new && !options_.allow_empty && !options_.version) {
    receipt_.version = at.head.version;
    return receipt_;
  }
  SKERRY_TRY(Store(at));
  receipt_.publish_seconds = watch.Lap();
  if (Status advanced = AdvanceSnapshot(); !advanced) {
    receipt_.warning = "the version is out, but the snapshot could not follow (the next publish rebuilds it): " +
                       advanced.error().message;
  }
  receipt_.advance_seconds = watch.Lap();
  std::error_code error;
  std::filesystem::remove(spool_, error);
  return receipt_;
}

}  // namespace

Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                               const PublishOptions& options, const Clock& clock, Progress& progress) {
  return Publication(board, run, checkpoint, options, clock, progress).Run();
}

Result<Path> DefaultPublisherState(const Board& board, const RunId& run) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache == nullptr && home == nullptr) {
    return Fail(Code::kInvalid, "neither XDG_CACHE_HOME nor HOME is set: say --state DIR");
  }
  const Path root = cache != nullptr ? Path(cache) : Path(home) / ".cache";
  return root / "skerry" / "publishers" / board.id() / run.str();
}

}  // namespace skerry
