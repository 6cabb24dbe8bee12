#include "skerry/publish/init.h"

#include "skerry/base/failpoint.h"
#include "skerry/board/keys.h"
#include "skerry/publish/version_objects.h"

namespace skerry {
namespace {

Result<AnchorFile> PutFile(const Board& board, const RunId& run, const Path& directory, const std::string& path,
                           BaseMode mode) {
  const Path file = std::filesystem::absolute(directory / path).lexically_normal();
  SKERRY_ASSIGN(const FileSource source, FileSource::Open(file, mode == BaseMode::kLink));
  AnchorFile anchor{.path = path, .object = {.size = source.size()}};
  SKERRY_ASSIGN(anchor.object.sha256, DigestOf(source));
  if (mode == BaseMode::kReference) {
    anchor.object.uri = "file://" + file.string();
    return anchor;
  }
  SKERRY_ASSIGN(anchor.object.key, AnchorFileKey(run, Version(0), anchor.object.sha256, path));
  SKERRY_TRY(board.PutObject(anchor.object.key, source));
  return anchor;
}

// What people are told of a run or view; written last, since what an init that was killed leaves must not stand in the
// way of another.
Status Describe(const Board& board, const RunId& run, const Checkpoint& base) {
  return board.PutRun({.run = run,
                       .base = std::filesystem::absolute(base.directory()).lexically_normal().filename().string(),
                       .parent = std::nullopt,
                       .layout = base.layout().digest()});
}

// The base of a run or of one of its views, with what is known of it.
struct Base {
  RunId run;
  const Checkpoint& checkpoint;
  std::vector<RunningDigest> digests;
  InitReceipt receipt;
};

Result<Base> DigestBase(const RunId& run, const Checkpoint& checkpoint, int threads, Progress& progress) {
  const Layout& layout = checkpoint.layout();
  SKERRY_ASSIGN(std::vector<RunningDigest> digests, DigestTensors(checkpoint, threads, progress));
  InitReceipt receipt{.model = ModelDigest(layout.tensors_digest(), digests), .layout = layout.digest()};
  return Base{run, checkpoint, std::move(digests), std::move(receipt)};
}

// The run is there: is it the one that was asked for?
Status CheckExisting(const Board& board, const Head& head, Base& base) {
  SKERRY_ASSIGN(const Head of_view, head.OfView(base.run.view()));
  SKERRY_ASSIGN(const Manifest first, board.ReadManifest(of_view, Version(0)));
  if (first.model != base.receipt.model || first.layout != base.receipt.layout) {
    return Fail(Code::kConflict, "run {} exists with base {}, not {}", base.run, first.model.Short(),
                base.receipt.model.Short());
  }
  for (const AnchorRef& anchor : first.anchors) base.receipt.bytes += anchor.bytes;
  const auto described = board.ReadRun(base.run);
  if (described || described.error().code != Code::kNotFound) return {};
  return Describe(board, base.run, base.checkpoint);
}

// All objects of version 0 and its manifest, which names those of the further `views`.
Result<StagedManifest> StageBase(const Board& board, Base& base, BaseMode mode,
                                 const std::vector<StagedManifest>& views, const Clock& clock, Progress& progress) {
  const Checkpoint& checkpoint = base.checkpoint;
  const Layout& layout = checkpoint.layout();
  Manifest manifest{.run = base.run, .version = Version(0), .layout = base.receipt.layout, .model = base.receipt.model};
  Anchor anchor{.run = base.run, .version = Version(0), .model = base.receipt.model, .files = {}, .parts = {}};
  progress.Begin("store", layout.total_bytes());
  for (const LayoutFile& file : layout.files()) {
    SKERRY_ASSIGN(AnchorFile stored, PutFile(board, base.run, checkpoint.directory(), file.name, mode));
    if (stored.object.size != file.size()) {
      return Fail(Code::kConflict, "{} changed while it was stored: {} bytes, then {}", file.name, file.size(),
                  stored.object.size);
    }
    progress.Advance(file.data_bytes);
    anchor.files.push_back(std::move(stored));
  }
  SKERRY_ASSIGN(manifest.side_files, DescribeSideFiles(checkpoint));
  for (const SideFile& file : manifest.side_files) {
    SKERRY_ASSIGN(AnchorFile stored, PutFile(board, base.run, checkpoint.directory(), file.path, mode));
    if (stored.object.sha256 != file.sha256) {
      return Fail(Code::kConflict, "{} changed while it was stored", file.path);
    }
    anchor.files.push_back(std::move(stored));
  }
  base.receipt.bytes = anchor.bytes();
  SKERRY_TRY(Failpoint("init.anchor_stored"));

  SKERRY_ASSIGN([[maybe_unused]] const Digest layout_digest, board.PutLayout(base.run, layout.Serialize()));
  SKERRY_ASSIGN(manifest.tensor_digests, PutTensorDigests(board, base.run, manifest.version, base.digests));
  SKERRY_ASSIGN(const AnchorRef anchored, board.PutAnchor(anchor));
  manifest.anchors = {anchored};
  manifest.time = FormatTime(clock.Now());
  manifest.stats = {.elements = layout.total_units(), .checkpoint_bytes = layout.total_bytes()};
  manifest.views = ManifestsOfViews(views);
  SKERRY_ASSIGN(StagedManifest staged, board.StageManifest(std::move(manifest)));
  SKERRY_TRY(Failpoint("init.manifest_stored"));
  return staged;
}

InitReceipt ReceiptOf(std::vector<Base> bases) {
  InitReceipt receipt = std::move(bases.front().receipt);
  for (size_t i = 1; i < bases.size(); ++i) {
    receipt.views.emplace_back(bases[i].run.view(), std::move(bases[i].receipt));
  }
  return receipt;
}

}  // namespace

Result<InitReceipt> InitRun(const Board& board, const RunId& run, const Checkpoint& base,
                            const std::map<std::string, const Checkpoint*, std::less<>>& views, BaseMode mode,
                            int threads, const Clock& clock, Progress& progress) {
  if (run.IsView()) {
    return Fail(Code::kInvalid, "{} is a view of run {}: the views of a run are given when it starts", run,
                run.Whole());
  }
  std::vector<Base> bases;
  SKERRY_ASSIGN(Base own, DigestBase(run, base, threads, progress));
  bases.push_back(std::move(own));
  for (const auto& [view, checkpoint] : views) {
    SKERRY_ASSIGN(const RunId of_view, run.View(view));
    if (!of_view.IsView()) return Fail(Code::kInvalid, "a further view of run {} has no name", run);
    SKERRY_ASSIGN(Base one, DigestBase(of_view, *checkpoint, threads, progress));
    bases.push_back(std::move(one));
  }

  const auto existing = board.ReadHead(run);
  if (existing) {
    std::vector<std::string> has, given;
    for (const ViewHead& view : existing->head.views) has.push_back(view.view);
    for (const auto& [view, checkpoint] : views) given.push_back(view);
    if (has != given) {
      return Fail(Code::kConflict, "run {} exists with the further views [{}], not [{}]", run, fmt::join(has, ", "),
                  fmt::join(given, ", "));
    }
    for (Base& one : bases) SKERRY_TRY(CheckExisting(board, existing->head, one));
    return ReceiptOf(std::move(bases));
  }
  if (existing.error().code != Code::kNotFound) return tl::unexpected(existing.error());

  std::vector<StagedManifest> staged_views;
  for (size_t i = 1; i < bases.size(); ++i) {
    SKERRY_ASSIGN(StagedManifest staged, StageBase(board, bases[i], mode, {}, clock, progress));
    staged_views.push_back(std::move(staged));
  }
  SKERRY_ASSIGN(const StagedManifest staged, StageBase(board, bases.front(), mode, staged_views, clock, progress));
  SKERRY_ASSIGN(const HeadAt head, CreateHead(board, staged, staged_views, clock));
  SKERRY_TRY(Failpoint("init.head_stored"));
  SKERRY_TRY(SettleAll(board, head, staged, staged_views));
  for (const Base& one : bases) SKERRY_TRY(Describe(board, one.run, one.checkpoint));
  bases.front().receipt.created = true;
  return ReceiptOf(std::move(bases));
}

}  // namespace skerry
