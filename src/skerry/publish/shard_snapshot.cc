#include "skerry/publish/shard_snapshot.h"

#include "skerry/apply/boxed_changes.h"
#include "skerry/base/parallel.h"
#include "skerry/base/temporary.h"
#include "skerry/tensors/safetensors.h"

namespace skerry {
namespace {

constexpr std::string_view kFileName = "model.safetensors";
constexpr uint64_t kChunk = 4 << 20;

Status WriteBoxes(const TensorSource& boxes, const Path& path, Progress& progress) {
  const std::string header = SafetensorsHeaderFor(boxes.layout().tensors());
  SKERRY_ASSIGN(const File out, File::Create(path));
  Bytes start(8);
  StoreLe<uint64_t>(start.data(), header.size());
  SKERRY_TRY(out.WriteAt(start, 0));
  SKERRY_TRY(out.WriteAt(AsBytes(header), 8));
  uint64_t place = 8 + header.size();
  progress.Begin("shard", boxes.layout().total_bytes());
  Bytes scratch;
  for (size_t i = 0; i < boxes.layout().tensors().size(); ++i) {
    const uint64_t bytes = boxes.layout().tensors()[i].bytes;
    for (uint64_t at = 0; at < bytes; at += kChunk) {
      const uint64_t size = std::min(kChunk, bytes - at);
      SKERRY_ASSIGN(const ByteSpan piece, boxes.Read(i, at, size, scratch));
      SKERRY_TRY(out.WriteAt(piece, place));
      place += size;
      progress.Advance(size);
    }
  }
  SKERRY_TRY(boxes.Check());
  return out.Sync();
}

}  // namespace

Result<ShardSnapshot> ShardSnapshot::Make(Path directory, const Layout& whole, std::vector<TensorBox> boxes) {
  SKERRY_ASSIGN(BoxView::Boxed boxed, BoxView::LayOut(whole, std::move(boxes)));
  return ShardSnapshot(std::move(directory), std::move(boxed));
}

Result<bool> ShardSnapshot::Open(const VersionLabel& version, int threads, Progress& progress) {
  if (IsAt(version)) return true;
  canonical_.reset();
  ++generation_;
  std::error_code error;
  if (!std::filesystem::exists(directory_ / kFileName, error)) return false;
  auto opened = CanonicalCheckpoint::Open(directory_, DefaultStateDirectory(directory_), threads, progress);
  if (!opened && opened.error().code == Code::kConflict) return tl::unexpected<Error>(std::move(opened).error());
  // Damaged, or of other boxes or another version: it is made anew.
  if (!opened || opened->state().label != version) return false;
  if (opened->checkpoint().layout().tensors_digest() != boxed_.layout.tensors_digest()) return false;
  canonical_.emplace(*std::move(opened));
  SKERRY_TRY(ReadShares(threads, progress));
  return true;
}

Status ShardSnapshot::Build(const Checkpoint& whole, const VersionLabel& version, int threads, Progress& progress) {
  SKERRY_ASSIGN(const BoxView boxes, BoxView::Of(whole, boxed_.boxes));
  if (boxes.layout().tensors_digest() != boxed_.layout.tensors_digest()) {
    return Fail(Code::kMismatch, "{}: its tensors are not those of the boxes", whole.directory().string());
  }
  SKERRY_TRY(Drop());
  SKERRY_TRY(MakeDirectories(directory_));
  const Path temporary = TemporaryBeside(directory_ / kFileName);
  SKERRY_TRY(WriteBoxes(boxes, temporary, progress));
  SKERRY_TRY(Rename(temporary, directory_ / kFileName));
  SKERRY_ASSIGN(canonical_,
                CanonicalCheckpoint::Open(directory_, DefaultStateDirectory(directory_), threads, progress));
  SKERRY_TRY(canonical_->Relabel(version));
  return ReadShares(threads, progress);
}

Status ShardSnapshot::Follow(const Patch& patch, const VersionLabel& version, std::vector<RunningDigest> shares,
                             int threads, Progress& progress) {
  ++generation_;
  SKERRY_TRY(canonical_->Apply(PatchSet(patch), version, threads, progress));
  shares_ = std::move(shares);
  return {};
}

Status ShardSnapshot::Drop() {
  canonical_.reset();
  ++generation_;
  return RemoveTree(directory_);
}

Status ShardSnapshot::ReadShares(int threads, Progress& progress) {
  const auto& tensors = checkpoint().layout().tensors();
  shares_.assign(tensors.size(), {});
  progress.Begin("digest", checkpoint().layout().total_bytes());
  return ParallelOrdered<RunningDigest>(
      tensors.size(), threads,
      [&](size_t i) -> Result<RunningDigest> {
        RunningDigest share;
        Bytes scratch;
        for (uint64_t at = 0; at < tensors[i].bytes; at += kChunk) {
          const uint64_t size = std::min(kChunk, tensors[i].bytes - at);
          SKERRY_ASSIGN(const ByteSpan bytes, checkpoint().Read(i, at, size, scratch));
          share += DigestInTensor(runs(i), at, bytes);
          progress.Advance(size);
        }
        return share;
      },
      [&](size_t i, RunningDigest share) -> Status {
        shares_[i] = share;
        return {};
      });
}

}  // namespace skerry
