#include "skerry/publish/fork.h"

#include "skerry/base/failpoint.h"
#include "skerry/board/collect_mark.h"
#include "skerry/board/keys.h"
#include "skerry/publish/version_objects.h"
#include "skerry/pull/route.h"

namespace skerry {
namespace {

// 16 bytes a tensor, and a header of a checkpoint has at most 100 MB for all of them.
constexpr uint64_t kMaxTensorDigestsBytes = 64 << 20;

Result<Digest> ManifestDigest(const Board& board, const Head& head, Version version) {
  if (version == head.version) return head.manifest.sha256;
  SKERRY_ASSIGN(const Object object, board.store().Get(ManifestKey(head.run, version), kMaxManifestBytes));
  return Sha256::Of(object.bytes);
}

// What run.json says or, where a crash left none, version 0.
Result<std::optional<ForkPoint>> OriginOf(const Board& board, const Head& head) {
  const Result<RunInfo> info = board.ReadRun(head.run);
  if (info) return info->parent;
  if (info.error().code != Code::kNotFound) return tl::unexpected<Error>(info.error());
  SKERRY_ASSIGN(const Manifest first, board.ReadManifest(head, Version(0)));
  return first.fork;
}

Status Describe(const Board& board, const RunId& run, const ForkPoint& origin, const Digest& layout) {
  return board.PutRun({.run = run,
                       .base = fmt::format("version {} of run {}", origin.version, origin.run),
                       .parent = origin,
                       .layout = layout});
}

// A crash may have left a fork, or a view of one, without its run.json.
Status DescribeWhereMissing(const Board& board, const Head& head) {
  const Result<RunInfo> info = board.ReadRun(head.run);
  if (info || info.error().code != Code::kNotFound) return {};
  SKERRY_ASSIGN(const Manifest first, board.ReadManifest(head, Version(0)));
  return Describe(board, head.run, *first.fork, first.layout);
}

// The run is there: is it the one that was asked for?
Result<ForkReceipt> CheckExisting(const Board& board, const HeadAt& at, const RunId& from,
                                  std::optional<Version> version) {
  SKERRY_ASSIGN(const std::optional<ForkPoint> origin, OriginOf(board, at.head));
  if (!origin) return Fail(Code::kConflict, "run {} is there already, and it is no fork", at.head.run);
  if (origin->run != from || (version && *version != origin->version)) {
    return Fail(Code::kConflict, "run {} is there already, forked from version {} of run {}, not from {} of run {}",
                at.head.run, origin->version, origin->run, version ? version->ToString() : "the head", from);
  }
  SKERRY_ASSIGN(const Manifest start, board.ReadManifest(origin->run, origin->version, origin->manifest));
  SKERRY_TRY(DescribeWhereMissing(board, at.head));
  for (const ViewHead& view : at.head.views) {
    SKERRY_ASSIGN(const Head of_view, at.head.OfView(view.view));
    SKERRY_TRY(DescribeWhereMissing(board, of_view));
  }
  return ForkReceipt{.origin = *origin, .model = start.model, .layout = start.layout};
}

// gc gives what it condemns a grace period, in which the fork would be noticed; what is condemned already may be gone
// before.
Status RefuseCondemned(const Board& board, const ForkPoint& origin) {
  SKERRY_ASSIGN(const CollectMarkAt at, ReadCollectMark(board, origin.run));
  if (!at.mark.condemned.contains(ManifestKey(origin.run, origin.version))) return {};
  return Fail(Code::kConflict, "version {} of run {} is about to be removed by gc (`skerry gc --dry-run` says why)",
              origin.version, origin.run);
}

Result<Manifest> FirstManifest(const Board& board, const RunId& run, const ForkPoint& origin, const Clock& clock) {
  SKERRY_ASSIGN(const Manifest start, board.ReadManifest(origin.run, origin.version, origin.manifest));
  SKERRY_ASSIGN(const Bytes layout, board.ReadLayout(origin.run, start.layout));
  SKERRY_TRY(board.PutLayout(run, layout));
  SKERRY_ASSIGN(const Bytes digests, board.ReadObject(start.tensor_digests, kMaxTensorDigestsBytes));
  ObjectRef copy = start.tensor_digests;
  copy.uri.clear();
  copy.key = TensorDigestsKey(run, Version(0), copy.sha256);
  SKERRY_TRY(board.PutObject(copy.key, MemorySource(digests)));
  SKERRY_TRY(Failpoint("fork.objects_stored"));
  Manifest manifest{.run = run, .version = Version(0), .layout = start.layout, .model = start.model};
  manifest.time = FormatTime(clock.Now());
  manifest.step = start.step;
  manifest.tensor_digests = std::move(copy);
  manifest.side_files = start.side_files;
  manifest.fork = origin;
  manifest.stats = {.elements = start.stats.elements, .checkpoint_bytes = start.stats.checkpoint_bytes};
  manifest.features = start.features;
  return manifest;
}

// Version `version` of the run or view that `at` is the head of.
Result<ForkPoint> OriginAt(const Board& board, const HeadAt& at, Version version) {
  const RunId& from = at.head.run;
  ForkPoint origin{.run = from, .version = version, .manifest = {}};
  const Result<Route> way = PlanRoute(board, at.head, version, std::nullopt);
  if (!way) return Annotate(way.error(), fmt::format("version {} of run {}", version, from));
  SKERRY_ASSIGN(origin.manifest, ManifestDigest(board, at.head, version));
  SKERRY_TRY(RefuseCondemned(board, origin));
  return origin;
}

}  // namespace

Result<ForkReceipt> ForkRun(const Board& board, const RunId& run, const RunId& from, std::optional<Version> version,
                            const Clock& clock) {
  if (run == from.Whole()) {
    return Fail(Code::kInvalid, "run {} can't be a fork of itself: give the new run another name", run);
  }
  if (run.IsView())
    return Fail(Code::kInvalid, "{} is a view: a fork is a run, with the views of the one it is from", run);
  const Result<HeadAt> existing = board.ReadHead(run);
  if (existing) return CheckExisting(board, *existing, from, version);
  if (existing.error().code != Code::kNotFound) return tl::unexpected<Error>(existing.error());

  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(from));
  std::vector<StagedManifest> views;
  for (const ViewHead& view : at.head.views) {
    SKERRY_ASSIGN(Head of_view, at.head.OfView(view.view));
    SKERRY_ASSIGN(const RunId id, run.View(view.view));
    SKERRY_ASSIGN(const ForkPoint origin,
                  OriginAt(board, {std::move(of_view), at.generation}, version.value_or(at.head.version)));
    SKERRY_ASSIGN(Manifest manifest, FirstManifest(board, id, origin, clock));
    SKERRY_ASSIGN(StagedManifest staged, board.StageManifest(std::move(manifest)));
    views.push_back(std::move(staged));
  }
  SKERRY_ASSIGN(const ForkPoint origin, OriginAt(board, at, version.value_or(at.head.version)));
  SKERRY_ASSIGN(Manifest manifest, FirstManifest(board, run, origin, clock));
  manifest.views = ManifestsOfViews(views);
  SKERRY_ASSIGN(const StagedManifest staged, board.StageManifest(std::move(manifest)));
  SKERRY_TRY(Failpoint("fork.manifest_stored"));
  SKERRY_ASSIGN(const HeadAt head, CreateHead(board, staged, views, clock));
  SKERRY_TRY(Failpoint("fork.head_stored"));
  SKERRY_TRY(SettleAll(board, head, staged, views));
  for (const StagedManifest& view : views) {
    SKERRY_TRY(Describe(board, view.manifest().run, *view.manifest().fork, view.manifest().layout));
  }
  SKERRY_TRY(Describe(board, run, origin, staged.manifest().layout));
  return ForkReceipt{
      .origin = origin, .model = staged.manifest().model, .layout = staged.manifest().layout, .created = true};
}

}  // namespace skerry
