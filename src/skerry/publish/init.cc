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

}  // namespace

Result<InitReceipt> InitRun(const Board& board, const RunId& run, const Checkpoint& base, BaseMode mode, int threads,
                            const Clock& clock, Progress& progress) {
  const Layout& layout = base.layout();
  SKERRY_ASSIGN(const std::vector<RunningDigest> digests, DigestTensors(base, threads, progress));
  InitReceipt receipt{.model = ModelDigest(layout.tensors_digest(), digests), .layout = layout.digest()};

  // For people; written last, since what an init that was killed leaves must not stand in the way of another.
  const auto describe = [&] {
    return board.PutRun({.run = run,
                         .base = std::filesystem::absolute(base.directory()).lexically_normal().filename().string(),
                         .parent = std::nullopt,
                         .layout = receipt.layout});
  };
  const auto existing = board.ReadHead(run);
  if (existing) {
    SKERRY_ASSIGN(const Manifest first, board.ReadManifest(existing->head, Version(0)));
    if (first.model != receipt.model || first.layout != receipt.layout) {
      return Fail(Code::kConflict, "run {} exists with base {}, not {}", run, first.model.Short(),
                  receipt.model.Short());
    }
    for (const AnchorRef& anchor : first.anchors) receipt.bytes += anchor.bytes;
    const auto described = board.ReadRun(run);
    if (!described && described.error().code == Code::kNotFound) SKERRY_TRY(describe());
    return receipt;
  }
  if (existing.error().code != Code::kNotFound) return tl::unexpected(existing.error());

  Manifest manifest{.run = run, .version = Version(0), .layout = receipt.layout, .model = receipt.model};
  Anchor anchor{.run = run, .version = Version(0), .model = receipt.model, .files = {}, .parts = {}};
  progress.Begin("store", layout.total_bytes());
  for (const LayoutFile& file : layout.files()) {
    SKERRY_ASSIGN(AnchorFile stored, PutFile(board, run, base.directory(), file.name, mode));
    if (stored.object.size != file.size()) {
      return Fail(Code::kConflict, "{} changed while it was stored: {} bytes, then {}", file.name, file.size(),
                  stored.object.size);
    }
    progress.Advance(file.data_bytes);
    anchor.files.push_back(std::move(stored));
  }
  SKERRY_ASSIGN(manifest.side_files, DescribeSideFiles(base));
  for (const SideFile& file : manifest.side_files) {
    SKERRY_ASSIGN(AnchorFile stored, PutFile(board, run, base.directory(), file.path, mode));
    if (stored.object.sha256 != file.sha256) {
      return Fail(Code::kConflict, "{} changed while it was stored", file.path);
    }
    anchor.files.push_back(std::move(stored));
  }
  receipt.bytes = anchor.bytes();
  SKERRY_TRY(Failpoint("init.anchor_stored"));

  SKERRY_ASSIGN([[maybe_unused]] const Digest layout_digest, board.PutLayout(run, layout.Serialize()));
  SKERRY_ASSIGN(manifest.tensor_digests, PutTensorDigests(board, run, manifest.version, digests));
  SKERRY_ASSIGN(const AnchorRef anchored, board.PutAnchor(anchor));
  manifest.anchors = {anchored};
  manifest.time = FormatTime(clock.Now());
  manifest.stats = {.elements = layout.total_units(), .checkpoint_bytes = layout.total_bytes()};
  SKERRY_ASSIGN(const StagedManifest staged, board.StageManifest(std::move(manifest)));
  SKERRY_TRY(Failpoint("init.manifest_stored"));

  SKERRY_ASSIGN(HeadAt head, CreateHead(board, staged, clock));
  SKERRY_TRY(Failpoint("init.head_stored"));
  SKERRY_TRY(board.Settle(std::move(head), &staged.manifest()));
  SKERRY_TRY(describe());
  receipt.created = true;
  return receipt;
}

}  // namespace skerry
