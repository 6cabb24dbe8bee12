#include "skerry/apply/anchor_build.h"

#include <algorithm>
#include <set>

#include "skerry/apply/journal.h"
#include "skerry/apply/patch_set.h"
#include "skerry/apply/shard_files.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/pull/object_fetcher.h"
#include "skerry/tensors/tensor_subset.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxNoteBytes = 4 << 20;

Path MarkOf(const Path& place) { return DefaultStateDirectory(place) / "building"; }
Path NoteOf(const Path& place) { return DefaultStateDirectory(place) / "building-parts"; }

class Build {
 public:
  Build(const Board& board, const Manifest& manifest, const Path& place, const AnchorBuildOptions& options,
        Progress& progress)
      : board_(board), manifest_(manifest), place_(place), options_(options), progress_(progress) {}

  Status FetchFiles(const Anchor& anchor);
  Status FillParts(const Anchor& anchor);
  Status Finish();
  AnchorBuildReceipt& receipt() { return receipt_; }

 private:
  Status Fetch(ObjectFetcher& fetcher, size_t index, const std::function<Status(const Path&)>& use);
  Status MakeShards(const Layout& layout) const;
  Status FillPart(const PatchPart& part, const Path& file, const Layout& layout, ShardFiles& shards);

  const Board& board_;
  const Manifest& manifest_;
  const Path& place_;
  const AnchorBuildOptions& options_;
  Progress& progress_;
  // Of the tensors that this call decoded, and how many they are; parts have none in common.
  std::vector<RunningDigest> digests_;
  size_t digested_ = 0;
  AnchorBuildReceipt receipt_;
};

// `use` is called while the object is in use.
Status Build::Fetch(ObjectFetcher& fetcher, size_t index, const std::function<Status(const Path&)>& use) {
  Stopwatch watch;
  SKERRY_ASSIGN(const FetchedObject fetched, fetcher.Take(index, progress_));
  receipt_.bytes_fetched += fetched.transferred;
  receipt_.fetch_seconds += watch.Lap();
  return use(fetched.path);
}

Status Build::FetchFiles(const Anchor& anchor) {
  uint64_t total = 0;
  std::vector<ObjectFetcher::Wanted> wanted;
  for (const AnchorFile& file : anchor.files) {
    SKERRY_TRY(CheckRelativePath(file.path));
    total += file.object.size;
    wanted.push_back({file.object, place_ / file.path});
  }
  progress_.Begin("fetch", total);
  // They are the checkpoint itself and no cache's. All is wanted, so nothing is ahead.
  ObjectFetcher fetcher(board_, std::move(wanted), options_.fetch,
                        {.objects = anchor.files.size(), .bytes = total, .spare_bytes = 0}, nullptr);
  for (size_t i = 0; i < anchor.files.size(); ++i) {
    SKERRY_TRY(Fetch(fetcher, i, [](const Path&) { return Status(); }));
  }
  return Failpoint("pull.fetched");
}

Status Build::MakeShards(const Layout& layout) const {
  for (const LayoutFile& file : layout.files()) {
    const Path path = place_ / file.name;
    SKERRY_TRY(MakeDirectories(path.parent_path()));
    SKERRY_ASSIGN(const File shard, File::OpenOrCreate(path));
    SKERRY_TRY(shard.Truncate(file.size()));
    Bytes start(8);
    StoreLe<uint64_t>(start.data(), file.header.size());
    SKERRY_TRY(shard.WriteAt(start, 0));
    SKERRY_TRY(shard.WriteAt(AsBytes(file.header), 8));
    SKERRY_TRY(shard.Sync());
    SKERRY_TRY(SyncDirectory(path.parent_path()));
  }
  return {};
}

Status Build::FillPart(const PatchPart& part, const Path& file, const Layout& layout, ShardFiles& shards) {
  Stopwatch watch;
  SKERRY_ASSIGN(const Patch patch, Patch::Open(file));
  SKERRY_ASSIGN(const std::vector<size_t> ordinals, TensorsOfPart(part, layout.tensors().size()));
  const NoTensors nothing;
  SKERRY_TRY(CheckBase(patch, nothing.layout(), {}));
  const auto write = [&](const RunChanges& changes) {
    return shards.Write(ordinals[changes.run.tensor], changes.run.first_unit, changes.run.units, changes.changes);
  };
  SKERRY_ASSIGN(const std::vector<RunningDigest> digests,
                DecodeVerified(patch, nothing, {}, layout.Subset(ordinals), options_.threads, progress_, write));
  for (size_t i = 0; i < ordinals.size(); ++i) digests_[ordinals[i]] = digests[i];
  digested_ += ordinals.size();
  SKERRY_TRY(shards.Sync());
  if (options_.cache == nullptr) SKERRY_TRY(RemoveTree(file));
  receipt_.apply_seconds += watch.Lap();
  return {};
}

Status Build::FillParts(const Anchor& anchor) {
  if (anchor.parts.empty()) return {};
  SKERRY_ASSIGN(const Bytes json, board_.ReadLayout(manifest_.run, manifest_.layout));
  SKERRY_ASSIGN(const Layout layout, Layout::Parse(json));
  digests_.resize(layout.tensors().size());
  const auto note = ReadFile(NoteOf(place_), kMaxNoteBytes);
  std::string done = note ? ToString(*note) : "";
  if (!note) SKERRY_TRY(MakeShards(layout));
  SKERRY_ASSIGN(ShardFiles shards, ShardFiles::Open(place_, layout));
  std::vector<const PatchPart*> missing;
  std::vector<ObjectFetcher::Wanted> wanted;
  for (const PatchPart& part : anchor.parts) {
    const std::string name = part.object.sha256.Hex();
    if (done.find(name + "\n") != std::string::npos) continue;
    missing.push_back(&part);
    wanted.push_back({part.object, DefaultStateDirectory(place_) / "objects" / (name + ".skerry")});
  }
  ObjectFetcher fetcher(board_, std::move(wanted), options_.fetch, {.spare_bytes = manifest_.stats.checkpoint_bytes},
                        options_.cache);
  for (size_t i = 0; i < missing.size(); ++i) {
    const PatchPart& part = *missing[i];
    progress_.Begin("fetch", part.object.size);
    SKERRY_TRY(Fetch(fetcher, i, [&](const Path& file) { return FillPart(part, file, layout, shards); }));
    done += part.object.sha256.Hex() + "\n";
    SKERRY_TRY(WriteFileAtomically(NoteOf(place_), AsBytes(done)));
    SKERRY_TRY(Failpoint("pull.part_filled"));
  }
  return {};
}

Status Build::Finish() {
  Stopwatch watch;
  SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(place_));
  const Layout& layout = checkpoint.layout();
  // Verbatim files, and parts of an earlier call, are read for it.
  if (digested_ != layout.tensors().size()) {
    SKERRY_ASSIGN(digests_, DigestTensors(checkpoint, options_.threads, progress_));
  }
  const Digest model = ModelDigest(layout.tensors_digest(), digests_);
  if (model != manifest_.model || layout.digest() != manifest_.layout) {
    return Fail(Code::kCorrupt,
                "run {} version {}: the anchor has model digest {} and layout {}, its manifest says {} and {}",
                manifest_.run, manifest_.version, model.Short(), layout.digest().Short(), manifest_.model.Short(),
                manifest_.layout.Short());
  }
  const CheckpointState state{.label = {manifest_.run.str(), manifest_.version},
                              .layout = layout.digest(),
                              .model = model,
                              .tensors = std::move(digests_)};
  SKERRY_TRY(WriteState(DefaultStateDirectory(place_), state));
  receipt_.apply_seconds += watch.Lap();
  return {};
}

}  // namespace

Result<AnchorBuildReceipt> BuildFromAnchor(const Board& board, const Manifest& manifest, const AnchorRef& ref,
                                           const Path& place, const AnchorBuildOptions& options, Progress& progress) {
  const Path state_directory = DefaultStateDirectory(place);
  const std::string mark =
      fmt::format("{} {} {} {}\n", manifest.run, manifest.version, manifest.model.Hex(), ref.object.sha256.Hex());
  const auto found = ReadFile(MarkOf(place), 1024);
  if (!found || AsText(*found) != mark) {
    SKERRY_TRY(RemoveTree(place));
    SKERRY_TRY(MakeDirectories(state_directory));
    SKERRY_TRY(WriteFileAtomically(MarkOf(place), AsBytes(mark)));
  }
  Build build(board, manifest, place, options, progress);
  SKERRY_ASSIGN(const std::optional<CheckpointState> state, ReadState(state_directory));
  if (state || JournalExists(state_directory)) return build.receipt();

  SKERRY_ASSIGN(const Anchor anchor, board.ReadAnchor(manifest.run, ref));
  uint64_t largest = 0;
  for (const PatchPart& part : anchor.parts) largest = std::max(largest, part.object.size);
  const uint64_t needed = anchor.parts.empty() ? anchor.bytes() : manifest.stats.checkpoint_bytes + largest;
  SKERRY_TRY(RequireSpace(place, needed, fmt::format("version {} of run {}", manifest.version, manifest.run)));
  if (options.cache != nullptr) SKERRY_TRY(options.cache->CheckRoom(largest));
  SKERRY_TRY(build.FetchFiles(anchor));
  SKERRY_TRY(build.FillParts(anchor));
  SKERRY_TRY(build.Finish());
  return build.receipt();
}

Status UnmarkAnchorBuild(const Path& place) {
  SKERRY_TRY(RemoveTree(NoteOf(place)));
  return RemoveTree(MarkOf(place));
}

}  // namespace skerry
