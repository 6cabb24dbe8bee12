#include "skerry/publish/publisher.h"

#include <cstdlib>
#include <map>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/catch_up.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/task_queue.h"
#include "skerry/base/temporary.h"
#include "skerry/board/keys.h"
#include "skerry/patch/side_files.h"
#include "skerry/publish/anchor_writer.h"
#include "skerry/publish/publisher_state.h"
#include "skerry/publish/skip_builder.h"
#include "skerry/publish/version_encoder.h"
#include "skerry/publish/version_objects.h"

namespace skerry {
namespace {

constexpr uint64_t kPartBytes = 16 << 20;
// Before anything is known, a patch is taken to be this part of the checkpoint.
constexpr uint64_t kFirstGuess = 128;
// Anchors stand at least this far apart, and where skips begin.
constexpr uint64_t kAnchorDistance = kShortSkip;
// How an anchor's size is estimated before there is one: what packing leaves of bf16 weights.
constexpr double kPackedShare = 0.68;
constexpr size_t kMostTails = 2 * kLongSkip;
constexpr size_t kMostAnchors = 4;  // that a manifest names

}  // namespace

struct Publisher::Impl {
  Impl(const Board& b, const RunId& r, const Path& directory, FileLock l, PublisherState s)
      : board(b), run(r), state_directory(directory), lock(std::move(l)), state(std::move(s)) {}

  const Board board;
  const RunId run;
  const Path state_directory;
  const FileLock lock;
  PublisherState state;
  std::optional<CanonicalCheckpoint> snapshot;  // at the version of the last publish, or none
};

namespace {

// One call of Publish.
class Publication {
 public:
  Publication(const Board& board, const RunId& run, const Path& state_directory, PublisherState& state,
              std::optional<CanonicalCheckpoint>& snapshot, const Checkpoint& checkpoint, const PublishOptions& options,
              const Clock& clock, Progress& progress)
      : board_(board),
        run_(run),
        state_directory_(state_directory),
        snapshot_directory_(state_directory / "snapshot"),
        state_(state),
        snapshot_(snapshot),
        checkpoint_(checkpoint),
        options_(options),
        clock_(clock),
        progress_(progress),
        skips_(state_directory / "undo", options.level, options.threads) {}

  Result<PublishReceipt> Run();

 private:
  Status FindPosition();
  Status CheckOwner() const;
  Result<bool> TakenAlready();
  Status PrepareSnapshot(bool from_scratch);
  Status CheckTensors() const;
  Status DescribeTargetFiles(const std::vector<SideFileChange>& changes);
  size_t PartsToMake() const;
  Status EncodeAndStore();
  Status StorePart(const EncodedPart& part, int number, TaskQueue& uploads) const;
  Result<StagedManifest> Stage();
  Status MoveHead(const StagedManifest& staged);
  Status Follow(const StagedManifest& staged);
  Status WriteAnchorIfDue(const Manifest& manifest);
  void Sweep() const;

  SkipBuilder::Step ThisStep() const {
    return {.run = run_,
            .snapshot = snapshot_->checkpoint(),
            .target = checkpoint_,
            .encoded = encoded_,
            .version = version_};
  }

  const Board& board_;
  const RunId& run_;
  const Path& state_directory_;
  const Path snapshot_directory_;
  PublisherState& state_;
  std::optional<CanonicalCheckpoint>& snapshot_;
  const Checkpoint& checkpoint_;
  const PublishOptions& options_;
  const Clock& clock_;
  Progress& progress_;
  const SkipBuilder skips_;

  std::optional<Position> position_;  // the head that this version follows
  bool from_note_ = false;            // and it was not read from the board
  Version version_;                   // the new one
  std::vector<SideFileChange> side_file_changes_;
  std::vector<SideFile> side_files_;
  EncodedVersion encoded_;
  std::vector<Edge> skip_edges_;
  ObjectRef digests_;
  std::optional<SettledHead> settled_;
  std::optional<HeadAt> published_;
  PublishReceipt receipt_;
};

// From the note of the last publish, else from the board.
Status Publication::FindPosition() {
  // A caller that asks for a number, or takes over, is to be told how things are, not how they were.
  if (state_.position() && !options_.version && !options_.take_over && board_.Trusts(state_.position()->manifest)) {
    position_ = *state_.position();
    from_note_ = true;
    return {};
  }
  SKERRY_ASSIGN(HeadAt at, board_.ReadHead(run_));
  SKERRY_ASSIGN(Manifest manifest, board_.ReadManifest(at.head, at.head.version));
  position_ = Position{.at = std::move(at), .manifest = std::move(manifest), .tails = {}, .anchors = {}};
  position_->anchors = position_->manifest.anchors;
  // What a reader without anything would fetch beside the anchor.
  const auto route = PlanRoute(board_, position_->at.head, position_->at.head.version, std::nullopt);
  if (route) {
    const uint64_t anchor = route->anchor ? route->anchor->anchor.bytes : 0;
    position_->tails[position_->at.head.version] = route->bytes - anchor;
  }
  return {};
}

// Fencing: whoever owned an epoch and finds a later one of somebody else has been replaced.
Status Publication::CheckOwner() const {
  const Head& head = position_->at.head;
  const bool replaced = state_.epoch() != 0 && head.publisher != state_.id() && head.epoch > state_.epoch();
  if (!replaced || options_.take_over) return {};
  return Fail(Code::kConflict,
              "run {}: another publisher ({}) took over with epoch {} at {}; this one owned epoch {} and must stop, "
              "unless it is to take the run back (--take-over)",
              run_, head.publisher, head.epoch, head.time, state_.epoch());
}

// Whether the asked number is taken: by these bytes (nothing to do) or by others (an error).
Result<bool> Publication::TakenAlready() {
  const Head& head = position_->at.head;
  if (!options_.version || *options_.version > head.version) return false;
  SKERRY_ASSIGN(const Manifest manifest, board_.ReadManifest(head, *options_.version));
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

Status Publication::PrepareSnapshot(bool from_scratch) {
  const Head& head = position_->at.head;
  const VersionLabel wanted{run_.str(), head.version};
  const auto ready = [&] {
    return snapshot_ && snapshot_->state().label == wanted && snapshot_->state().model == head.model;
  };
  const auto open = [&]() -> Status {
    SKERRY_ASSIGN(snapshot_, CanonicalCheckpoint::Open(snapshot_directory_, DefaultStateDirectory(snapshot_directory_),
                                                       options_.threads, progress_));
    return {};
  };
  if (from_scratch) {
    snapshot_.reset();
    SKERRY_TRY(RemoveTree(snapshot_directory_));
  } else if (ready() || (!snapshot_ && open() && ready())) {
    return Failpoint("publish.snapshot_ready");
  }
  snapshot_.reset();
  CatchUpOptions options{.version = head.version, .threads = options_.threads};
  auto caught_up = CatchUp(board_, run_, snapshot_directory_, options, progress_);
  if (!caught_up && caught_up.error().code == Code::kMismatch && !from_scratch) {
    // Another run or another history had this state directory: what it holds is only a cache.
    return PrepareSnapshot(/*from_scratch=*/true);
  }
  if (!caught_up) return Annotate(std::move(caught_up).error(), "snapshot");
  SKERRY_TRY(open());
  return Failpoint("publish.snapshot_ready");
}

Status Publication::CheckTensors() const {
  const Layout& before = snapshot_->checkpoint().layout();
  if (before.tensors_digest() == checkpoint_.layout().tensors_digest()) return {};
  return Fail(Code::kInvalid, "{} does not have the tensors of run {}: {}", checkpoint_.directory().string(), run_,
              DescribeTensorDifferences(before, checkpoint_.layout()));
}

// What the version's side files are: the snapshot's with the changes. The checkpoint is not asked again, since it may
// have changed since it was compared.
Status Publication::DescribeTargetFiles(const std::vector<SideFileChange>& changes) {
  std::map<std::string, SideFile> files;
  SKERRY_ASSIGN(std::vector<SideFile> before, DescribeSideFiles(snapshot_->checkpoint()));
  for (SideFile& file : before) files.emplace(file.path, std::move(file));
  for (const SideFileChange& change : changes) {
    files.erase(change.path);
    if (!change.content) continue;
    files.emplace(change.path,
                  SideFile{.path = change.path, .size = change.content->size(), .sha256 = Sha256::Of(*change.content)});
  }
  side_files_.clear();
  for (auto& [path, file] : files) side_files_.push_back(std::move(file));
  return {};
}

size_t Publication::PartsToMake() const {
  if (snapshot_->checkpoint().layout().digest() != checkpoint_.layout().digest()) return 1;  // parts change no layout
  if (options_.parts) return std::max<size_t>(1, *options_.parts);
  const ManifestStats& last = position_->manifest.stats;
  const uint64_t expected = last.patch_bytes > 0 ? last.patch_bytes : last.checkpoint_bytes / kFirstGuess;
  return std::max<size_t>(1, expected / kPartBytes);
}

Status Publication::StorePart(const EncodedPart& part, int number, TaskQueue& uploads) const {
  const std::string key = DeltaKey(run_, version_, number, part.object.sha256);
  return uploads.Add([this, key, spool = part.spool]() -> Status {
    SKERRY_ASSIGN(const FileSource source, FileSource::Open(spool, /*may_hard_link=*/true));
    return board_.PutObject(key, source);
  });
}

Status Publication::EncodeAndStore() {
  const Checkpoint& before = snapshot_->checkpoint();
  SKERRY_TRY(CheckTensors());
  SKERRY_ASSIGN(side_file_changes_, CompareSideFiles(before, checkpoint_));
  SKERRY_TRY(DescribeTargetFiles(side_file_changes_));
  const bool files_changed = !side_file_changes_.empty() || before.layout().digest() != checkpoint_.layout().digest();
  const bool wanted_anyway = options_.allow_empty || options_.version.has_value();
  const EncodeOptions encode{.threads = options_.threads, .level = options_.level, .with_names = false};

  TaskQueue uploads(/*threads=*/2);
  Stopwatch watch;
  bool stored = false;
  std::vector<EncodedPart> parts;
  const std::vector<std::vector<size_t>> groups = GroupTensors(checkpoint_.layout(), PartsToMake());
  for (size_t i = 0; i < groups.size(); ++i) {
    const int number = static_cast<int>(i);
    const Path spool = state_directory_ / fmt::format("spool-{:03}.skerry", number);
    SKERRY_ASSIGN(EncodedPart part,
                  EncodePart(before, checkpoint_, groups[i],
                             i == 0 ? side_file_changes_ : std::vector<SideFileChange>(), encode, spool, progress_));
    part.object.key = DeltaKey(run_, version_, number, part.object.sha256);
    const bool says_something = part.receipt.info.changed > 0 || part.receipt.side_files_changed > 0;
    const bool only_one = !stored && i + 1 == groups.size() && (wanted_anyway || files_changed);
    if (says_something || only_one) {
      SKERRY_TRY(StorePart(part, number, uploads));
      stored = true;
    }
    parts.push_back(std::move(part));
  }
  SKERRY_ASSIGN(encoded_, CombineParts(std::move(parts), before.layout(), checkpoint_.layout()));
  if (encoded_.base_model != position_->at.head.model) {
    return Fail(Code::kCorrupt, "snapshot {}: model digest {}, but the head's is {}", snapshot_directory_.string(),
                encoded_.base_model.Short(), position_->at.head.model.Short());
  }
  const double worked = encoded_.compare_seconds + encoded_.encode_seconds;
  const double elapsed = watch.Lap();
  receipt_.diff_seconds = worked > 0 ? elapsed * encoded_.compare_seconds / worked : elapsed;
  receipt_.encode_seconds = elapsed - receipt_.diff_seconds;
  receipt_.published = encoded_.changed > 0 || files_changed || wanted_anyway;
  SKERRY_TRY(Failpoint("publish.encoded"));
  if (!receipt_.published) return uploads.Finish();

  SKERRY_TRY(uploads.Add([this]() -> Status {
    SKERRY_ASSIGN(digests_, PutTensorDigests(board_, run_, version_, encoded_.target_digests));
    return {};
  }));
  SKERRY_TRY(uploads.Add([this]() -> Status {
    SKERRY_ASSIGN(settled_, board_.Settle(position_->at, &position_->manifest));
    return {};
  }));
  SKERRY_ASSIGN(skip_edges_, skips_.Build(board_, ThisStep(), progress_));
  SKERRY_TRY(uploads.Finish());
  SKERRY_TRY(Failpoint("publish.patch_stored"));
  if (before.layout().digest() == checkpoint_.layout().digest()) return {};
  SKERRY_TRY(board_.PutLayout(run_, checkpoint_.layout().Serialize()));
  return {};
}

Result<StagedManifest> Publication::Stage() {
  const Head& head = position_->at.head;
  Manifest manifest{.run = run_,
                    .version = version_,
                    .parent = head.manifest.sha256,
                    .time = FormatTime(clock_.Now()),
                    .step = options_.step,
                    .layout = checkpoint_.layout().digest(),
                    .model = encoded_.target_model,
                    .tensor_digests = digests_,
                    .side_files = side_files_};
  manifest.anchors = position_->anchors;
  if (manifest.anchors.size() > kMostAnchors) manifest.anchors.resize(kMostAnchors);
  manifest.edges = {{.from = head.version, .base_model = head.model, .parts = encoded_.parts}};
  manifest.edges.insert(manifest.edges.end(), skip_edges_.begin(), skip_edges_.end());
  manifest.stats = {.elements = checkpoint_.layout().total_units(),
                    .changed = encoded_.changed,
                    .tensors_changed = encoded_.tensors_changed,
                    .checkpoint_bytes = checkpoint_.layout().total_bytes(),
                    .patch_bytes = encoded_.patch_bytes};
  SKERRY_ASSIGN(StagedManifest staged, board_.StageManifest(std::move(manifest)));
  SKERRY_TRY(Failpoint("publish.manifest_stored"));
  return staged;
}

Status Publication::MoveHead(const StagedManifest& staged) {
  const Head& head = position_->at.head;
  const bool own_epoch = head.publisher == state_.id();
  Head next{.run = run_,
            .epoch = own_epoch ? head.epoch : head.epoch + 1,
            .version = version_,
            .manifest = staged.ref(),
            .model = staged.manifest().model,
            .publisher = state_.id(),
            .nonce = RandomToken(),
            .sequence = head.sequence + 1,
            .time = FormatTime(clock_.Now())};
  SKERRY_TRY(state_.ForgetPosition());
  SKERRY_ASSIGN(Generation generation, board_.MoveHead(settled_, next, staged));
  receipt_.version = version_;
  published_ = HeadAt{std::move(next), std::move(generation)};
  return Failpoint("publish.head_moved");
}

// The version is out; what is left can be done again from the board.
Status Publication::Follow(const StagedManifest& staged) {
  const bool same_files = snapshot_->checkpoint().layout().digest() == checkpoint_.layout().digest();
  SKERRY_TRY(state_.OwnEpoch(published_->head.epoch));
  SKERRY_TRY(skips_.Remember(ThisStep(), progress_));
  if (same_files) {
    std::vector<Patch> patches;
    for (const Path& spool : encoded_.spools) {
      SKERRY_ASSIGN(Patch patch, Patch::Open(spool));
      patches.push_back(std::move(patch));
    }
    SKERRY_ASSIGN(const PatchSet set, PatchSet::OfParts(patches, encoded_.parts, checkpoint_.layout().tensors().size(),
                                                        encoded_.base_model, encoded_.target_model));
    SKERRY_TRY(snapshot_->Apply(set, {run_.str(), version_}, options_.threads, progress_));
    SKERRY_TRY(Failpoint("publish.snapshot_advanced"));
  } else {
    snapshot_.reset();  // the next publish rebuilds it
  }
  Position next{.at = *published_, .manifest = staged.manifest(), .tails = position_->tails, .anchors = {}};
  next.anchors = staged.manifest().anchors;
  for (const Edge& edge : staged.manifest().edges) {
    const auto tail = position_->tails.find(edge.from);
    if (tail == position_->tails.end()) continue;
    const uint64_t bytes = tail->second + edge.bytes();
    const auto [at, first] = next.tails.try_emplace(version_, bytes);
    at->second = std::min(at->second, bytes);
  }
  while (next.tails.size() > kMostTails) next.tails.erase(next.tails.begin());
  SKERRY_TRY(state_.SetPosition(std::move(next)));
  return Failpoint("publish.position_kept");
}

Status Publication::WriteAnchorIfDue(const Manifest& manifest) {
  Position position = *state_.position();
  const Version version = manifest.version;
  const uint64_t since = position.anchors.empty() ? version.number() + kAnchorDistance
                                                  : version.number() - position.anchors[0].version.number();
  const auto tail = position.tails.find(version);
  const bool missed_its_place = since >= 2 * kAnchorDistance;
  if (version.number() % kAnchorDistance != 0 && !missed_its_place) return {};
  if (options_.anchor_tail <= 0 || since < kAnchorDistance || !snapshot_) return {};
  const uint64_t full = manifest.stats.checkpoint_bytes;
  const bool packed = !position.anchors.empty() && position.anchors[0].bytes < full;
  const double anchor =
      packed ? static_cast<double>(position.anchors[0].bytes) : kPackedShare * static_cast<double>(full);
  const bool due = tail == position.tails.end() || static_cast<double>(tail->second) > options_.anchor_tail * anchor;
  if (!due) return {};
  const AnchorOptions options{.directory = state_directory_ / "anchor", .threads = options_.threads};
  SKERRY_ASSIGN(AnchorRef ref, WriteAnchor(board_, manifest, snapshot_->checkpoint(), options, progress_));
  receipt_.anchor_bytes = ref.bytes;
  position.anchors.insert(position.anchors.begin(), std::move(ref));
  position.tails[version] = 0;
  return state_.SetPosition(std::move(position));
}

void Publication::Sweep() const {
  std::error_code error;
  for (const Path& spool : encoded_.spools) std::filesystem::remove(spool, error);
}

Result<PublishReceipt> Publication::Run() {
  SKERRY_TRY(FindPosition());
  SKERRY_TRY(CheckOwner());
  const Version at = position_->at.head.version;
  if (options_.version && *options_.version > at.Next()) {
    return Fail(Code::kInvalid, "run {} is at version {}: the next one is {}, not {}", run_, at, at.Next(),
                *options_.version);
  }
  SKERRY_ASSIGN(const bool taken, TakenAlready());
  if (taken) return receipt_;
  version_ = at.Next();

  Stopwatch watch;
  SKERRY_TRY(PrepareSnapshot(/*from_scratch=*/false));
  receipt_.snapshot_seconds = watch.Lap();
  Status encoded = EncodeAndStore();
  if (!encoded && encoded.error().code == Code::kCorrupt) {
    watch.Lap();
    SKERRY_TRY(PrepareSnapshot(/*from_scratch=*/true));
    receipt_.snapshot_seconds += watch.Lap();
    encoded = EncodeAndStore();
  }
  SKERRY_TRY(std::move(encoded));
  receipt_.publish_seconds = watch.Lap() - receipt_.diff_seconds - receipt_.encode_seconds;
  receipt_.model = encoded_.target_model;
  receipt_.step = options_.step;
  receipt_.elements = checkpoint_.layout().total_units();
  receipt_.changed = encoded_.changed;
  receipt_.tensors_changed = encoded_.tensors_changed;
  receipt_.patch_bytes = encoded_.patch_bytes;
  receipt_.checkpoint_bytes = checkpoint_.layout().total_bytes();
  receipt_.parts = encoded_.parts.size();
  if (!receipt_.published) {
    Sweep();
    if (from_note_) {
      // Nothing will prove that the note is still true but looking.
      SKERRY_ASSIGN(const HeadAt now, board_.ReadHead(run_));
      if (now.generation != position_->at.generation) {
        SKERRY_TRY(state_.ForgetPosition());
        from_note_ = false;
        return Run();
      }
    }
    receipt_.version = at;
    // An anchor that was interrupted is gone on with.
    SKERRY_TRY(state_.SetPosition(*position_));
    SKERRY_TRY(WriteAnchorIfDue(position_->manifest));
    return receipt_;
  }
  for (const Edge& edge : skip_edges_) receipt_.skip_bytes += edge.bytes();
  receipt_.skips = skip_edges_.size();
  SKERRY_ASSIGN(const StagedManifest staged, Stage());
  SKERRY_TRY(MoveHead(staged));
  receipt_.publish_seconds += watch.Lap();

  Status followed = Follow(staged);
  receipt_.advance_seconds = watch.Lap();
  if (followed) followed = WriteAnchorIfDue(staged.manifest());
  receipt_.anchor_seconds = watch.Lap();
  if (!followed) {
    snapshot_.reset();
    receipt_.warning = "the version is out, but what should follow it failed (the next publish makes up for it): " +
                       followed.error().message;
  }
  Sweep();
  return receipt_;
}

}  // namespace

Publisher::Publisher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Publisher::Publisher(Publisher&&) noexcept = default;
Publisher::~Publisher() = default;

Result<Publisher> Publisher::Open(const Board& board, const RunId& run, const Path& state_directory) {
  SKERRY_TRY(MakeDirectories(state_directory));
  auto lock = FileLock::TryAcquire(state_directory / "lock");
  if (!lock && lock.error().code == Code::kConflict) {
    return Fail(Code::kConflict, "another publisher is at work with state directory {}", state_directory.string());
  }
  if (!lock) return tl::unexpected<Error>(std::move(lock).error());
  SweepTemporaries(state_directory);
  SKERRY_ASSIGN(PublisherState state, PublisherState::Open(state_directory, board.id(), run));
  return Publisher(std::make_unique<Impl>(board, run, state_directory, *std::move(lock), std::move(state)));
}

Result<PublishReceipt> Publisher::Publish(const Checkpoint& checkpoint, const PublishOptions& options,
                                          const Clock& clock, Progress& progress) {
  Publication publication(impl_->board, impl_->run, impl_->state_directory, impl_->state, impl_->snapshot, checkpoint,
                          options, clock, progress);
  return publication.Run();
}

Result<PublishReceipt> Publish(const Board& board, const RunId& run, const Checkpoint& checkpoint,
                               const PublishOptions& options, const Clock& clock, Progress& progress) {
  SKERRY_ASSIGN(Publisher publisher, Publisher::Open(board, run, options.state_directory));
  return publisher.Publish(checkpoint, options, clock, progress);
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
