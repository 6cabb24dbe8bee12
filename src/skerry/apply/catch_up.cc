#include "skerry/apply/catch_up.h"

#include <algorithm>

#include "skerry/apply/anchor_build.h"
#include "skerry/apply/beside.h"
#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/check_side_files.h"
#include "skerry/apply/content_lock.h"
#include "skerry/apply/journal.h"
#include "skerry/apply/rebuild.h"
#include "skerry/apply/route_patches.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/board/forebears.h"
#include "skerry/board/lease.h"
#include "skerry/pull/object_cache.h"
#include "skerry/pull/route.h"

namespace skerry {
namespace {

constexpr std::chrono::milliseconds kPatienceBeforeReplanning{5000};
// From so many bytes on a route takes long enough to be worth a lease.
constexpr uint64_t kLeaseBytes = 256 << 20;
// An object with a wrong SHA-256 may be due to what an earlier call left.
constexpr int kFetchAttempts = 2;

class Walk {
 public:
  Walk(const Board& board, const RunId& run, Path directory, const CatchUpOptions& options, Progress& progress)
      : board_(board),
        run_(run),
        directory_(std::move(directory)),
        options_(options),
        progress_(progress),
        patience_(options.patience) {}

  Result<CatchUpReceipt> Run();

 private:
  Status OpenWhatIsThere();
  Result<CanonicalCheckpoint> OpenAt(const Path& place) const;
  // Whether what is here, which is called so, may stay and move on; else it is replaced, or an error.
  Result<bool> IsOurs(const VersionLabel& label);
  bool IsForebear(const std::string& other) const;
  Result<Route> Plan(bool from_nothing);
  Result<Route> PlanPatiently(bool from_nothing);
  Status Reach(Route route);
  Status BuildAndReplace(const Route& route);
  Status Follow(const Route& route, const Path& place);
  Status StartFromAnchor(const AnchorStart& start, const Path& place);
  Status Advance(const Hop& hop, const std::vector<Path>& files, const Path& place);
  Result<RoutePatches::Files> Fetch(RoutePatches& patches, size_t index, const Hop& hop);
  Status ApplyInPlace(const PatchSet& set, const Manifest& to);
  Status ReplaceByRebuild(const Patch& patch, const Manifest& to, const Path& place);
  Result<ContentLock> LockContent(const Path& place) const;
  void Stage(std::string_view stage) const {
    if (options_.on_stage) options_.on_stage(stage);
  }
  FetchOptions Fetching() const {
    return {.patience = patience_, .parallel = options_.fetch_parallel, .attempts = kFetchAttempts};
  }
  ObjectCache* cache() { return cache_ ? &*cache_ : nullptr; }
  static VersionLabel LabelOf(const Manifest& manifest) { return {manifest.run.str(), manifest.version}; }

  const Board& board_;
  const RunId& run_;
  const Path directory_;
  const CatchUpOptions& options_;
  Progress& progress_;
  Patience patience_;                             // with objects
  std::optional<FileLock> lock_;                  // given up after the checkpoint's own
  std::optional<CanonicalCheckpoint> canonical_;  // at directory_, or at the place where it is being built
  std::optional<LeaseHolder> lease_;
  std::optional<ObjectCache> cache_;
  bool head_used_ = false;  // options_.head
  CatchUpReceipt receipt_;
};

// Whether the run was forked from that one, directly or through others.
bool Walk::IsForebear(const std::string& other) const {
  const auto forebears = ForebearsOf(board_, run_);
  return forebears && std::any_of(forebears->begin(), forebears->end(),
                                  [&](const RunId& forebear) { return forebear.str() == other; });
}

Result<bool> Walk::IsOurs(const VersionLabel& label) {
  if (label.version && (label.run == run_.str() || IsForebear(label.run))) return true;
  if (label.version && options_.replace_other_run) {
    receipt_.replaced = label.Describe();
    return false;
  }
  return Fail(Code::kMismatch, "{} holds {}, not a version of run {}: name another place", directory_.string(),
              label.Describe(), run_);
}

// While it is being built nobody needs a way back.
Result<CanonicalCheckpoint> Walk::OpenAt(const Path& place) const {
  return CanonicalCheckpoint::Open(place, DefaultStateDirectory(place), options_.threads, progress_,
                                   place == directory_ ? options_.canonical : CanonicalOptions{});
}

Status Walk::OpenWhatIsThere() {
  canonical_.reset();
  std::error_code error;
  // An empty directory is as good as none: a volume, or one that somebody made in advance.
  if (!std::filesystem::exists(directory_, error) || std::filesystem::is_empty(directory_, error)) return {};
  const Path state_directory = DefaultStateDirectory(directory_);
  auto state = ReadState(state_directory);
  if (state && !*state && !JournalExists(state_directory)) {
    return Fail(Code::kConflict, "{} exists and was not made by skerry pull: name another place", directory_.string());
  }
  if (state && *state) {
    SKERRY_ASSIGN(const bool ours, IsOurs((*state)->label));
    if (!ours) return {};
  }
  if (options_.rebuild) {
    receipt_.healed = "it was known to be damaged";
    return {};
  }
  auto opened = OpenAt(directory_);
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
  SKERRY_ASSIGN(const bool ours, IsOurs(label));
  if (!ours) return {};
  receipt_.from = label.version;
  canonical_ = *std::move(opened);
  return {};
}

Status Walk::StartFromAnchor(const AnchorStart& start, const Path& place) {
  canonical_.reset();
  Stage("build");
  SKERRY_ASSIGN(const AnchorBuildReceipt built,
                BuildFromAnchor(board_, start.manifest, start.anchor, place,
                                {.threads = options_.threads, .fetch = Fetching(), .cache = cache()}, progress_));
  receipt_.anchor = true;
  receipt_.bytes_fetched += built.bytes_fetched;
  receipt_.fetch_seconds += built.fetch_seconds;
  receipt_.apply_seconds += built.apply_seconds;
  SKERRY_ASSIGN(canonical_, OpenAt(place));
  return {};
}

// The patch files of a hop, where they lie after fetching.
Result<RoutePatches::Files> Walk::Fetch(RoutePatches& patches, size_t index, const Hop& hop) {
  Stopwatch watch;
  Stage("fetch");
  progress_.Begin("fetch", hop.edge.bytes());
  SKERRY_ASSIGN(RoutePatches::Files files, patches.Take(index, progress_));
  receipt_.bytes_fetched += files.transferred;
  receipt_.fetch_seconds += watch.Lap();
  SKERRY_TRY(Failpoint("pull.fetched"));
  return files;
}

// Applied in place; a version with another layout is built anew and takes the place.
Status Walk::Advance(const Hop& hop, const std::vector<Path>& files, const Path& place) {
  const Manifest& to = hop.to;
  Stopwatch watch;
  std::vector<Patch> patches;
  for (const Path& file : files) {
    SKERRY_ASSIGN(Patch patch, Patch::Open(file));
    patches.push_back(std::move(patch));
  }
  auto set =
      PatchSet::OfParts(patches, hop.edge.parts, canonical_->checkpoint().layout(), hop.edge.base_model, to.model);
  if (!set) return Annotate(std::move(set).error(), fmt::format("run {} version {}", to.run, to.version));
  const Patch& first = patches.front();
  if (set->whole() != nullptr && first.info().target_layout != to.layout) {
    return Fail(Code::kMismatch, "run {} version {}: its patch leads to layout {}, its manifest says {}", to.run,
                to.version, first.info().target_layout.Short(), to.layout.Short());
  }
  if (to.layout == canonical_->state().layout) {
    SKERRY_TRY(ApplyInPlace(*set, to));
  } else if (set->whole() == nullptr) {
    return Fail(Code::kMismatch, "run {} version {}: parts lead to another layout: {}, not {}", to.run, to.version,
                to.layout.Short(), canonical_->state().layout.Short());
  } else {
    SKERRY_TRY(ReplaceByRebuild(first, to, place));
  }
  ++receipt_.patches;
  ++(hop.edge.kind == "skip" ? receipt_.skips : receipt_.deltas);
  receipt_.apply_seconds += watch.Lap();
  return {};
}

Status Walk::ApplyInPlace(const PatchSet& set, const Manifest& to) {
  Stage("apply");
  SKERRY_ASSIGN(const ApplyReceipt applied, canonical_->Apply(set, LabelOf(to), options_.threads, progress_));
  receipt_.changed += applied.changed;
  receipt_.journal_bytes += applied.journal_bytes;
  receipt_.undo_bytes += applied.undo_bytes;
  receipt_.wait_seconds += applied.wait_seconds;
  receipt_.decode_seconds += applied.decode_seconds;
  receipt_.journal_seconds += applied.journal_seconds;
  receipt_.write_seconds += applied.write_seconds;
  receipt_.sync_seconds += applied.sync_seconds;
  return {};
}

// A folder takes the checkpoint's name only while nobody reads what has it.
Result<ContentLock> Walk::LockContent(const Path& place) const {
  Stage("exchange");
  return ContentLock::ForWriting(place, options_.canonical.content_patience);
}

Status Walk::ReplaceByRebuild(const Patch& patch, const Manifest& to, const Path& place) {
  const Path next = Beside(place, "next");
  Stage("rebuild");
  SKERRY_TRY(RemoveTree(next));
  SKERRY_ASSIGN(const RebuildReceipt rebuilt,
                RebuildCheckpoint(canonical_->checkpoint(), canonical_->state().tensors, patch, next, LabelOf(to),
                                  /*write_state=*/true, options_.threads, progress_));
  receipt_.changed += rebuilt.changed;
  ++receipt_.rebuilds;
  canonical_.reset();
  {
    SKERRY_ASSIGN(const ContentLock lock, LockContent(place));
    SKERRY_TRY(ExchangePaths(next, place));
    SKERRY_TRY(SyncDirectory(place.parent_path()));
  }
  SKERRY_TRY(RemoveTree(next));
  SKERRY_ASSIGN(canonical_, OpenAt(place));
  return {};
}

Status Walk::Follow(const Route& route, const Path& place) {
  if (route.anchor) SKERRY_TRY(StartFromAnchor(*route.anchor, place));
  // A build that was interrupted may be further along already.
  size_t next = 0;
  for (size_t i = 0; i < route.hops.size(); ++i) {
    if (canonical_->state().label == LabelOf(route.hops[i].to)) next = i + 1;
  }
  const std::span<const Hop> hops = std::span(route.hops).subspan(next);
  std::optional<RoutePatches> patches;
  size_t first = 0;  // the hop that `patches` begins with
  for (size_t i = 0; i < hops.size(); ++i) {
    if (lease_) (void)lease_->Renew();
    if (!patches) {
      patches.emplace(board_, hops.subspan(i), DefaultStateDirectory(place) / "objects", Fetching(), cache());
      first = i;
    }
    SKERRY_ASSIGN(RoutePatches::Files files, Fetch(*patches, i - first, hops[i]));
    // Another folder takes the place, and with it goes what was fetched ahead into this one.
    const bool moves_in_place = hops[i].to.layout == canonical_->state().layout;
    if (!moves_in_place && !cache_) patches.reset();
    SKERRY_TRY(Advance(hops[i], files.paths, place));
    if (patches) patches->Done(std::move(files));
  }
  receipt_.elements = canonical_->checkpoint().layout().total_units();
  SKERRY_TRY(CheckSideFiles(route.target, place));
  return canonical_->Relabel(LabelOf(route.target));
}

// A route to the wanted version from what is here, or from nothing.
Result<Route> Walk::Plan(bool from_nothing) {
  SKERRY_ASSIGN(const Head head, [&]() -> Result<Head> {
    if (options_.head && options_.head->run == run_ && !std::exchange(head_used_, true)) return *options_.head;
    auto head = board_.ReadHead(run_);
    // A run that does not exist is an answer, not something to wait for, unless the caller knows better.
    if (!head && head.error().code == Code::kNotFound) {
      if (options_.wait_for_run) return Fail(Code::kUnavailable, "not there yet: {}", head.error().message);
      return Fail(Code::kInvalid, "{}", head.error().message);
    }
    SKERRY_TRY(head);
    return head->head;
  }());
  const Version target = options_.version.value_or(head.version);
  if (target > head.version && options_.wait_for_run) {
    return Fail(Code::kUnavailable, "not there yet: run {} is at version {}, asked for {}", run_, head.version, target);
  }
  if (target > head.version) {
    return Fail(Code::kInvalid, "run {} is at version {}, asked for {}", run_, head.version, target);
  }
  std::optional<Have> have;
  if (canonical_ && !from_nothing) {
    const CheckpointState& state = canonical_->state();
    SKERRY_ASSIGN(const RunId run, RunId::Parse(state.label.run));
    have = Have{run, *state.label.version, state.model};
    if (!options_.version && run == run_ && head.version < have->version) {
      return Fail(Code::kUnavailable,
                  "the board shows run {} at version {}, but {} is at {} already: a replica that lags behind", run_,
                  head.version, directory_.string(), have->version);
    }
  }
  return PlanRoute(board_, head, target, have, options_.costs);
}

Result<Route> Walk::PlanPatiently(bool from_nothing) {
  Stopwatch watch;
  Stage("plan");
  Route route;
  const std::string what =
      options_.version ? fmt::format("version {} of run {}", *options_.version, run_) : fmt::format("run {}", run_);
  SKERRY_TRY(options_.patience.Retry(what, [&]() -> Status {
    SKERRY_ASSIGN(route, Plan(from_nothing));
    return {};
  }));
  receipt_.plan_seconds += watch.Lap();
  receipt_.side_files = route.target.side_files;
  if (options_.on_route) options_.on_route(route);
  SKERRY_TRY(RoutePatches::CheckRoom(route.hops, DefaultStateDirectory(directory_) / "objects", cache()));
  return route;
}

// From an anchor, beside the directory, which it replaces when it is whole.
Status Walk::BuildAndReplace(const Route& route) {
  receipt_.from.reset();
  receipt_.patches = receipt_.deltas = receipt_.skips = receipt_.rebuilds = receipt_.changed = 0;
  const Path building = Beside(directory_, "building");
  Status followed = Follow(route, building);
  if (!followed && followed.error().code == Code::kCorrupt) {
    // Perhaps what an earlier call left there was damaged; once more from nothing.
    canonical_.reset();
    SKERRY_TRY(RemoveTree(building));
    followed = Follow(route, building);
  }
  SKERRY_TRY(std::move(followed));
  canonical_.reset();
  SKERRY_ASSIGN(ContentLock lock, LockContent(directory_));
  // From here on the folder is a checkpoint, and after the exchange it is the old one: no longer something to go on
  // with.
  SKERRY_TRY(UnmarkAnchorBuild(building));
  std::error_code error;
  if (std::filesystem::exists(directory_, error) && !std::filesystem::is_empty(directory_, error)) {
    SKERRY_TRY(ExchangePaths(building, directory_));
    SKERRY_TRY(SyncDirectory(directory_.parent_path()));
    lock = ContentLock();
    return RemoveTree(building);
  }
  SKERRY_TRY(Rename(building, directory_));
  return SyncDirectory(directory_.parent_path());
}

// What is here moves on in place where it can, else an anchor takes its place.
Status Walk::Reach(Route route) {
  if (route.bytes >= kLeaseBytes) {
    // Without one (the board can't be written, say) a route that vanishes is planned anew.
    lease_.emplace(board_, route.target.run, RandomToken(), Clock::System());
    (void)lease_->Hold(route.target.version, route.target.version);
  }
  if (!route.anchor) {
    Status followed = Follow(route, directory_);
    if (followed || followed.error().code != Code::kCorrupt) return followed;
    // Every fetched byte was verified, so it is the local checkpoint that is damaged.
    receipt_.healed = followed.error().message;
    canonical_.reset();
    SKERRY_ASSIGN(route, PlanPatiently(/*from_nothing=*/true));
  }
  SKERRY_TRY(BuildAndReplace(route));
  return {};
}

Result<CatchUpReceipt> Walk::Run() {
  SKERRY_TRY(MakeDirectories(directory_.parent_path()));
  // Beside the directory, since that may not be there yet. Who waits finds the other's work done.
  SKERRY_ASSIGN(lock_, FileLock::Acquire(Beside(directory_, "lock")));
  SKERRY_TRY(RemoveTree(Beside(directory_, "next")));
  if (options_.cache.bytes > 0) {
    const Path& named = options_.cache.directory;
    SKERRY_ASSIGN(cache_,
                  ObjectCache::Open(named.empty() ? Beside(directory_, "objects") : named, options_.cache.bytes));
  }
  SKERRY_TRY(OpenWhatIsThere());
  SKERRY_ASSIGN(Route route, PlanPatiently(/*from_nothing=*/false));
  // What a route names may be gone since: retention removed it for a newer way. So a first try waits only a little
  // before it plans again; what it fetched counts.
  patience_.limit = std::min(options_.patience.limit, kPatienceBeforeReplanning);
  Status reached = Reach(route);
  if (!reached && reached.error().code == Code::kUnavailable && patience_.limit < options_.patience.limit) {
    patience_ = options_.patience;
    SKERRY_TRY(OpenWhatIsThere());
    SKERRY_ASSIGN(route, PlanPatiently(/*from_nothing=*/false));
    reached = Reach(route);
  }
  SKERRY_TRY(std::move(reached));
  // What an interrupted call may have left.
  SKERRY_TRY(RemoveTree(Beside(directory_, "building")));
  if (!cache_) SKERRY_TRY(RemoveTree(DefaultStateDirectory(directory_) / "objects"));
  receipt_.version = route.target.version;
  receipt_.model = route.target.model;
  return receipt_;
}

}  // namespace

Result<CatchUpReceipt> CatchUp(const Board& board, const RunId& run, const Path& directory,
                               const CatchUpOptions& options, Progress& progress) {
  return Walk(board, run, NamedDirectory(directory), options, progress).Run();
}

}  // namespace skerry
