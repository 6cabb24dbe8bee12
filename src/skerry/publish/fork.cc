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
  const Result<RunInfo> info = board.ReadRun(at.head.run);
  if (!info && info.error().code == Code::kNotFound) {
    SKERRY_TRY(Describe(board, at.head.run, *origin, start.layout));
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

}  // namespace

Result<ForkReceipt> ForkRun(const Board& board, const RunId& run, const RunId& from, std::optional<Version> version,
                            const Clock& clock) {
  if (run == from) return Fail(Code::kInvalid, "run {} can't be a fork of itself: give the new run another name", run);
  const Result<HeadAt> existing = board.ReadHead(run);
  if (existing) return CheckExisting(board, *existing, from, version);
  if (existing.error().code != Code::kNotFound) return tl::unexpected<Error>(existing.error());

  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(from));
  ForkPoint origin{.run = from, .version = version.value_or(at.head.version), .manifest = {}};
  const Result<Route> way = PlanRoute(board, at.head, origin.version, std::nullopt);
  if (!way) return Annotate(way.error(), fmt::format("version {} of run {}", origin.version, from));
  SKERRY_ASSIGN(origin.manifest, ManifestDigest(board, at.head, origin.version));
  SKERRY_TRY(RefuseCondemned(board, origin));

  SKERRY_ASSIGN(Manifest manifest, FirstManifest(board, run, origin, clock));
  SKERRY_ASSIGN(const StagedManifest staged, board.StageManifest(std::move(manifest)));
  SKERRY_TRY(Failpoint("fork.manifest_stored"));
  SKERRY_ASSIGN(HeadAt head, CreateHead(board, staged, clock));
  SKERRY_TRY(Failpoint("fork.head_stored"));
  SKERRY_TRY(board.Settle(std::move(head), &staged.manifest()));
  SKERRY_TRY(Describe(board, run, origin, staged.manifest().layout));
  return ForkReceipt{
      .origin = origin, .model = staged.manifest().model, .layout = staged.manifest().layout, .created = true};
}

}  // namespace skerry
