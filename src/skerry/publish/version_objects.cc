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

Result<HeadAt> CreateHead(const Board& board, const StagedManifest& first, const Clock& clock) {
  Head head{.run = first.manifest().run,
            .version = first.manifest().version,
            .manifest = first.ref(),
            .model = first.manifest().model,
            .publisher = RandomToken(),
            .nonce = RandomToken(),
            .time = FormatTime(clock.Now())};
  SKERRY_ASSIGN(Generation generation, board.MoveHead(std::nullopt, head, first));
  return HeadAt{std::move(head), std::move(generation)};
}

}  // namespace skerry
