#include "skerry/publish/version_objects.h"

#include "skerry/board/keys.h"

namespace skerry {

Result<ObjectRef> PutTensorDigests(const Board& board, const RunId& run, Version version,
                                   const std::vector<RunningDigest>& digests) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const RunningDigest& digest : digests) {
    writer.Int<uint64_t>(digest.a);
    writer.Int<uint64_t>(digest.b);
  }
  ObjectRef object{.size = bytes.size(), .sha256 = Sha256::Of(bytes)};
  object.key = TensorDigestsKey(run, version, object.sha256);
  SKERRY_TRY(board.PutObject(object.key, MemorySource(bytes)));
  return object;
}

Result<std::vector<SideFile>> DescribeSideFiles(const Checkpoint& checkpoint) {
  std::vector<SideFile> files;
  for (const SideFileInfo& info : checkpoint.side_files()) {
    SKERRY_ASSIGN(const Bytes content, checkpoint.ReadSideFile(info));
    files.push_back({.path = info.path, .size = content.size(), .sha256 = Sha256::Of(content)});
  }
  return files;
}

std::vector<ViewHead> HeadsOfViews(const std::vector<StagedManifest>& views) {
  std::vector<ViewHead> heads;
  for (const StagedManifest& staged : views) {
    heads.push_back({.view = std::string(staged.manifest().run.view()),
                     .manifest = staged.ref(),
                     .model = staged.manifest().model});
  }
  return heads;
}

std::vector<ViewManifest> ManifestsOfViews(const std::vector<StagedManifest>& views) {
  std::vector<ViewManifest> manifests;
  for (const StagedManifest& staged : views) {
    manifests.push_back({.view = std::string(staged.manifest().run.view()), .manifest = staged.ref().sha256});
  }
  return manifests;
}

Result<HeadAt> CreateHead(const Board& board, const StagedManifest& first, const std::vector<StagedManifest>& views,
                          const Clock& clock) {
  Head head{.run = first.manifest().run,
            .version = first.manifest().version,
            .manifest = first.ref(),
            .model = first.manifest().model,
            .publisher = RandomToken(),
            .nonce = RandomToken(),
            .time = FormatTime(clock.Now()),
            .views = HeadsOfViews(views)};
  SKERRY_ASSIGN(Generation generation, board.MoveHead(std::nullopt, head, first, views));
  return HeadAt{std::move(head), std::move(generation)};
}

Status SettleAll(const Board& board, const HeadAt& at, const StagedManifest& own,
                 const std::vector<StagedManifest>& views) {
  SKERRY_TRY(board.Settle(at, &own.manifest()));
  for (const StagedManifest& staged : views) {
    SKERRY_ASSIGN(Head head, at.head.OfView(staged.manifest().run.view()));
    SKERRY_TRY(board.Settle({std::move(head), at.generation}, &staged.manifest()));
  }
  return {};
}

}  // namespace skerry
