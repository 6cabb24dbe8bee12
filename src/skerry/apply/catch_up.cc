#include "skerry/apply/catch_up.h"

#include <algorithm>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/journal.h"
#include "skerry/apply/rebuild.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/pull/route.h"

namespace skerry {
namespace {

Path Beside(const Path& directory, std::string_view what) {
  return directory.parent_path() / fmt::format(".{}.{}", directory.filename().string(), what);
}

// In a folder where a version is being built from an anchor: whose anchor it is. A folder without it is never gone on
// with.
Path BuildMark(const Path& place) { return DefaultStateDirectory(place) / "building"; }

class Walk {
 public:
  Walk(const Board& board, const RunId& run, Path directory, const CatchUpOptions& options, Progress& progress)
      : board_(board), run_(run), directory_(std::move(directory)), options_(options), progress_(progress) {}

  Result<CatchUpReceipt> Run();

 private:
  Status OpenWhatIsThere();
  Status Follow(const Route& route, const Path& place);
  Status BuildFromAnchor(const Manifest& anchor, const Path& place);
  Status Advance(const Manifest& manifest, const Path& place);
  Status CheckSideFiles(const Manifest& manifest, const Path& place) const;
  VersionLabel LabelOf(const Manifest& manifest) const { return {run_.str(), manifest.version}; }

  const Board& board_;
  const RunId& run_;
  const Path directory_;
  const CatchUpOptions& options_;
  Progress& progress_;
  std::optional<CanonicalCheckpoint> canonical_;  // at directory_, or at the place where it is being built
  CatchUpReceipt receipt_;
};

Status Walk::OpenWhatIsThere() {
  std::error_code error;
  // An empty directory is as good as none: a volume, or one that somebody made in advance.
  if (!std::filesystem::exists(directory_, error) || std::filesystem::is_empty(directory_, error)) return {};
  const Path state_directory = DefaultStateDirectory(directory_);
  auto state = ReadState(state_directory);
  if (state && !*state && !JournalExists(state_directory)) {
    return Fail(Code::kConflict, "{} exists and was not made by skerry pull: name another place", directory_.string());
  }
  const auto refuse_other_run = [&](const VersionLabel& label) -> Status {
    if (label.run == run_.str() && label.version) return {};
    return Fail(Code::kMismatch, "{} holds {}, not a version of run {}: name another place", directory_.string(),
                label.Describe(), run_);
  };
  if (state && *state) SKERRY_TRY(refuse_other_run((*state)->label));
  auto opened = CanonicalCheckpoint::Open(directory_, state_directory, options_.threads, progress_);
  if (!opened) {
    // It is ours, and its files are missing or damaged: an anchor will mend it.
    const Code code = opened.error().code;
    if (code != Code::kCorrupt && code != Code::kNotFound && code != Code::kInvalid) {
      return tl::unexpected<Error>(std::move(opened).error());
    }
    receipt_.healed = opened.error().message;
    return {};
  }
  const VersionLabel& label = opened->state().label;
  SKERRY_TRY(refuse_other_run(label));
  receipt_.from = label.version;
  canonical_ = *std::move(opened);
  return {};
}

// The anchor's files, each verified by its SHA-256; then all tensors by the version's model digest.
Status Walk::BuildFromAnchor(const Manifest& anchor, const Path& place) {
  canonical_.reset();
  const Path state_directory = DefaultStateDirectory(place);
  const std::string mark = fmt::format("{} {} {}\n", run_, anchor.version, anchor.model.Hex());
  const auto found = ReadFile(BuildMark(place), 1024);
  if (!found || AsText(*found) != mark) {
    SKERRY_TRY(RemoveTree(place));
    SKERRY_TRY(MakeDirectories(state_directory));
    SKERRY_TRY(WriteFileAtomically(BuildMark(place), AsBytes(mark)));
  }
  // A build that got past its anchor in an earlier call has a state; it is complete as far as that says.
  SKERRY_ASSIGN(const std::optional<CheckpointState> state, ReadState(state_directory));
  if (!state && !JournalExists(state_directory)) {
    uint64_t total = 0;
    for (const AnchorFile& file : anchor.anchor->files) total += file.object.size;
    SKERRY_TRY(RequireSpace(place, total, fmt::format("version {} of run {}", anchor.version, run_)));
    Stopwatch watch;
    progress_.Begin("fetch", total);
    for (const AnchorFile& file : anchor.anchor->files) {
      SKERRY_TRY(CheckRelativePath(file.path));
      SKERRY_ASSIGN(const uint64_t bytes,
                    FetchObject(board_, file.object, place / file.path, options_.patience, progress_));
      receipt_.bytes_fetched += bytes;
    }
    SKERRY_TRY(Failpoint("pull.fetched"));
    receipt_.fetch_seconds += watch.Lap();
    SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(place));
    SKERRY_ASSIGN(std::vector<RunningDigest> digests, DigestTensors(checkpoint, options_.threads, progress_));
    const Layout& layout = checkpoint.layout();
    const Digest model = ModelDigest(layout.tensors_digest(), digests);
    if (model != anchor.model || layout.digest() != anchor.layout) {
      return Fail(Code::kCorrupt,
                  "run {} version {}: the anchor has model digest {} and layout {}, its manifest says {} and {}", run_,
                  anchor.version, model.Short(), layout.digest().Short(), anchor.model.Short(), anchor.layout.Short());
    }
    SKERRY_TRY(WriteState(
        state_directory,
        {.label = LabelOf(anchor), .layout = layout.digest(), .model = model, .tensors = std::move(digests)}));
    receipt_.apply_seconds += watch.Lap();
  }
  SKERRY_ASSIGN(canonical_, CanonicalCheckpoint::Open(place, state_directory, options_.threads, progress_));
  return {};
}

// One delta: fetch, then apply in place; a version with another layout is built anew and takes the place.
Status Walk::Advance(const Manifest& manifest, const Path& place) {
  SKERRY_ASSIGN(const Edge edge, DeltaEdge(manifest));
  if (edge.objects.size() != 1) {
    return Fail(Code::kUnsupported, "run {} version {} has a delta in {} parts, this program applies one", run_,
                manifest.version, edge.objects.size());
  }
  Stopwatch watch;
  const ObjectRef& object = edge.objects[0];
  const Path file = DefaultStateDirectory(place) / "objects" / (object.sha256.Hex() + ".skerry");
  progress_.Begin("fetch", object.size);
  SKERRY_ASSIGN(const uint64_t bytes, FetchObject(board_, object, file, options_.patience, progress_));
  receipt_.bytes_fetched += bytes;
  receipt_.fetch_seconds += watch.Lap();
  SKERRY_TRY(Failpoint("pull.fetched"));

  SKERRY_ASSIGN(const Patch patch, Patch::Open(file));
  if (patch.info().target_model != manifest.model || patch.info().target_layout != manifest.layout) {
    return Fail(Code::kMismatch, "run {} version {}: its delta leads to model {}, its manifest says {}", run_,
                manifest.version, patch.info().target_model.Short(), manifest.model.Short());
  }
  if (manifest.layout == canonical_->state().layout) {
    SKERRY_ASSIGN(const ApplyReceipt applied, canonical_->Apply(patch, LabelOf(manifest), options_.threads, progress_));
    receipt_.changed += applied.changed;
  } else {
    const Path next = Beside(place, "next");
    SKERRY_TRY(RemoveTree(next));
    SKERRY_ASSIGN(const RebuildReceipt rebuilt,
                  RebuildCheckpoint(canonical_->checkpoint(), canonical_->state().tensors, patch, next,
                                    LabelOf(manifest), /*write_state=*/true, options_.threads, progress_));
    receipt_.changed += rebuilt.changed;
    canonical_.reset();
    SKERRY_TRY(ExchangePaths(next, place));
    SKERRY_TRY(SyncDirectory(place.parent_path()));
    SKERRY_TRY(RemoveTree(next));
    SKERRY_ASSIGN(canonical_,
                  CanonicalCheckpoint::Open(place, DefaultStateDirectory(place), options_.threads, progress_));
  }
  std::error_code error;
  std::filesystem::remove(file, error);
  ++receipt_.patches;
  receipt_.apply_seconds += watch.Lap();
  return {};
}

Status Walk::CheckSideFiles(const Manifest& manifest, const Path& place) const {
  for (const SideFile& file : manifest.side_files) {
    const auto content = ReadFile(place / file.path, kMaxSideFileBytes);
    if (!content || Sha256::Of(*content) != file.sha256) {
      return Fail(Code::kCorrupt, "{}: {}, but version {} of run {} has SHA-256 {}", (place / file.path).string(),
                  content ? "SHA-256 is " + Sha256::Of(*content).Short() : content.error().message, manifest.version,
                  run_, file.sha256.Short());
    }
  }
  return {};
}

Status Walk::Follow(const Route& route, const Path& place) {
  if (route.anchor) SKERRY_TRY(BuildFromAnchor(*route.anchor, place));
  for (const Manifest& manifest : route.deltas) {
    // A build that was interrupted may be further along already.
    if (canonical_->state().label.version >= manifest.version) continue;
    SKERRY_TRY(Advance(manifest, place));
  }
  return CheckSideFiles(route.target, place);
}

Result<CatchUpReceipt> Walk::Run() {
  Stopwatch watch;
  SKERRY_TRY(MakeDirectories(directory_.parent_path()));
  // Beside the directory, since that may not be there yet. Who waits finds the other's work done.
  SKERRY_ASSIGN([[maybe_unused]] const FileLock lock, FileLock::Acquire(Beside(directory_, "lock")));
  SKERRY_TRY(RemoveTree(Beside(directory_, "next")));
  SKERRY_TRY(OpenWhatIsThere());
  Route route;
  SKERRY_TRY(options_.patience.Retry(fmt::format("run {}", run_), [&]() -> Status {
    const auto head = board_.ReadHead(run_);
    if (!head) {
      // A run that does not exist is an answer, not something to wait for.
      Error error = head.error();
      if (error.code == Code::kNotFound) error.code = Code::kInvalid;
      return tl::unexpected<Error>(std::move(error));
    }
    const Version target = options_.version.value_or(head->head.version);
    if (target > head->head.version) {
      return Fail(Code::kInvalid, "run {} is at version {}, asked for {}", run_, head->head.version, target);
    }
    const auto have = canonical_ ? std::optional<Have>({*canonical_->state().label.version, canonical_->state().model})
                                 : std::nullopt;
    SKERRY_ASSIGN(route, PlanRoute(board_, head->head, target, have));
    return {};
  }));
  receipt_.plan_seconds = watch.Lap();

  Status followed = {};
  if (!route.anchor) {
    followed = Follow(route, directory_);
    if (!followed && followed.error().code == Code::kCorrupt) {
      // Every fetched byte was verified, so it is the local checkpoint that is damaged.
      receipt_.healed = followed.error().message;
      canonical_.reset();
      SKERRY_ASSIGN(const HeadAt head, board_.ReadHead(run_));
      SKERRY_ASSIGN(route, PlanRoute(board_, head.head, route.target.version, std::nullopt));
    } else if (!followed) {
      return tl::unexpected<Error>(std::move(followed).error());
    }
  }
  if (route.anchor) {
    receipt_.from.reset();
    receipt_.patches = 0;
    const Path building = Beside(directory_, "building");
    followed = Follow(route, building);
    if (!followed && followed.error().code == Code::kCorrupt) {
      // Perhaps what an earlier call left there was damaged; once more from nothing.
      canonical_.reset();
      SKERRY_TRY(RemoveTree(building));
      followed = Follow(route, building);
    }
    SKERRY_TRY(std::move(followed));
    canonical_.reset();
    // From here on the folder is a checkpoint, and after the exchange it is the old one: no longer something to go on
    // with.
    SKERRY_TRY(RemoveTree(BuildMark(building)));
    std::error_code error;
    if (std::filesystem::exists(directory_, error) && !std::filesystem::is_empty(directory_, error)) {
      SKERRY_TRY(ExchangePaths(building, directory_));
      SKERRY_TRY(SyncDirectory(directory_.parent_path()));
      SKERRY_TRY(RemoveTree(building));
    } else {
      SKERRY_TRY(Rename(building, directory_));
      SKERRY_TRY(SyncDirectory(directory_.parent_path()));
    }
  }
  // What an interrupted call may have left.
  SKERRY_TRY(RemoveTree(Beside(directory_, "building")));
  receipt_.version = route.target.version;
  receipt_.model = route.target.model;
  return receipt_;
}

}  // namespace

Result<CatchUpReceipt> CatchUp(const Board& board, const RunId& run, const Path& directory,
                               const CatchUpOptions& options, Progress& progress) {
  // Absolute and without a trailing slash, so that "beside" means the parent directory.
  Path absolute = std::filesystem::absolute(directory).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  return Walk(board, run, std::move(absolute), options, progress).Run();
}

}  // namespace skerry
