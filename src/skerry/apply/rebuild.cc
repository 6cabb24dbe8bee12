#include "skerry/apply/rebuild.h"

#include "skerry/apply/shard_files.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/clock.h"
#include "skerry/base/failpoint.h"
#include "skerry/base/interrupt.h"
#include "skerry/base/temporary.h"

namespace skerry {
namespace {

constexpr uint64_t kCopyChunk = 4 << 20;
constexpr uint64_t kSlackBytes = 16 << 20;  // directory blocks, state

// The file of the base that holds exactly what `file` of the target holds, before the patch: it can be copied whole.
const LayoutFile* SameFile(const Layout& base, const LayoutFile& file) {
  for (const LayoutFile& candidate : base.files()) {
    if (candidate.name == file.name && candidate.header == file.header) return &candidate;
  }
  return nullptr;
}

// Writes a shard that the base has not in this form: header, then the base's tensors (what the base has not stays zero
// until the patch fills it).
Status WriteShard(const Checkpoint& base, const Layout& target, uint32_t index, const Path& path, Progress& progress) {
  const LayoutFile& file = target.files()[index];
  SKERRY_ASSIGN(File out, File::Create(path));
  SKERRY_TRY(out.Truncate(file.size()));
  Bytes start(8);
  StoreLe<uint64_t>(start.data(), file.header.size());
  SKERRY_TRY(out.WriteAt(start, 0));
  SKERRY_TRY(out.WriteAt(AsBytes(file.header), 8));
  Bytes scratch;
  for (const LayoutTensor& tensor : target.tensors()) {
    if (tensor.file != index) continue;
    const int64_t at = base.layout().Find(tensor.name);
    if (at < 0) continue;
    const LayoutTensor& source = base.layout().tensors()[static_cast<size_t>(at)];
    if (source.dtype != tensor.dtype || source.shape != tensor.shape) continue;
    for (uint64_t offset = 0; offset < tensor.bytes; offset += kCopyChunk) {
      SKERRY_TRY(CheckInterrupt());
      const uint64_t length = std::min(kCopyChunk, tensor.bytes - offset);
      SKERRY_ASSIGN(const ByteSpan bytes, base.Read(static_cast<size_t>(at), offset, length, scratch));
      SKERRY_TRY(out.WriteAt(bytes, tensor.offset_in_file + offset));
      progress.Advance(length);
    }
  }
  return base.Check();
}

Status CopyShards(const Checkpoint& base, const Layout& target, const Path& directory, Progress& progress) {
  progress.Begin("copy", target.total_bytes());
  for (uint32_t i = 0; i < target.files().size(); ++i) {
    const LayoutFile& file = target.files()[i];
    const Path path = directory / file.name;
    SKERRY_TRY(MakeDirectories(path.parent_path()));
    if (SameFile(base.layout(), file) != nullptr) {
      SKERRY_TRY(CopyFile(base.directory() / file.name, path));
      progress.Advance(file.data_bytes);
    } else {
      SKERRY_TRY(WriteShard(base, target, i, path, progress));
    }
  }
  return {};
}

Status CopySideFiles(const Checkpoint& base, const Patch& patch, const Path& directory) {
  std::vector<SideFileChange> files = patch.head().side_files;
  for (const SideFileInfo& file : base.side_files()) {
    const bool replaced = std::any_of(patch.head().side_files.begin(), patch.head().side_files.end(),
                                      [&](const SideFileChange& change) { return change.path == file.path; });
    if (replaced) continue;
    SKERRY_ASSIGN(Bytes content, base.ReadSideFile(file));
    files.push_back({.path = file.path, .content = std::move(content)});
  }
  for (const SideFileChange& file : files) {
    if (!file.content) continue;
    const Path path = directory / file.path;
    SKERRY_TRY(MakeDirectories(path.parent_path()));
    SKERRY_ASSIGN(File out, File::Create(path));
    SKERRY_TRY(out.Append(*file.content));
    SKERRY_TRY(out.Sync());
    SKERRY_TRY(SyncDirectory(path.parent_path()));
  }
  return {};
}

// A base whose files are laid out otherwise than the patch's may bring an index that does not fit the target's shards.
Status CheckResult(const Patch& patch, const Checkpoint& base, const Layout& target, const Path& directory) {
  const auto result = Checkpoint::Open(directory);
  if (result && result->layout().digest() == target.digest()) return {};
  return Fail(Code::kMismatch,
              "{}: made for files of layout {}, but {} has {}, and its index does not fit the result{}", patch.name(),
              patch.info().base_layout.Short(), base.directory().string(), base.layout().digest().Short(),
              result ? "" : ": " + result.error().message);
}

}  // namespace

Result<RebuildReceipt> RebuildCheckpoint(const Checkpoint& base, std::span<const RunningDigest> base_digests,
                                         const Patch& patch, const Path& output, const VersionLabel& label,
                                         bool write_state, int threads, Progress& progress) {
  std::error_code error;
  if (std::filesystem::exists(output, error)) {
    return Fail(Code::kConflict, "{} exists already: name another place, or remove it first", output.string());
  }
  RebuildReceipt receipt;
  Stopwatch watch;
  std::vector<RunningDigest> computed;
  if (base_digests.empty() && base.layout().tensors_digest() == patch.info().base_tensors) {
    SKERRY_ASSIGN(computed, DigestTensors(base, threads, progress));
    base_digests = computed;
  }
  SKERRY_TRY(CheckBase(patch, base.layout(), base_digests));
  SKERRY_ASSIGN(const Layout target, TargetLayout(patch, base.layout()));
  SKERRY_TRY(CheckTargetPaths(patch, base, target));
  const auto nothing = [](const RunChanges&) -> Status { return {}; };
  SKERRY_ASSIGN(std::vector<RunningDigest> digests,
                DecodeVerified(patch, base, base_digests, target, threads, progress, nothing));
  const Path absolute = std::filesystem::absolute(output, error);
  const Path parent = absolute.parent_path();
  SKERRY_TRY(MakeDirectories(parent));
  SKERRY_TRY(RequireSpace(parent, target.total_bytes() + kSlackBytes, "the new checkpoint"));
  receipt.verify_seconds = watch.Lap();

  const Path building = TemporaryBeside(absolute);
  SweepTemporaries(parent, absolute);
  const auto build = [&]() -> Status {
    SKERRY_TRY(MakeDirectories(building));
    SKERRY_TRY(CopyShards(base, target, building, progress));
    receipt.copy_seconds = watch.Lap();
    SKERRY_TRY(Failpoint("rebuild.files_copied"));
    SKERRY_ASSIGN(ShardFiles shards, ShardFiles::Open(building, target));
    SKERRY_ASSIGN(digests,
                  DecodeVerified(patch, base, base_digests, target, threads, progress, [&](const RunChanges& part) {
                    return shards.Write(part.run.tensor, part.run.first_unit, part.run.units, part.changes);
                  }));
    receipt.changed = patch.info().changed;
    SKERRY_TRY(shards.Sync());
    SKERRY_TRY(CopySideFiles(base, patch, building));
    receipt.state = {
        .label = label, .layout = target.digest(), .model = patch.info().target_model, .tensors = std::move(digests)};
    if (write_state) {
      SKERRY_TRY(MakeDirectories(DefaultStateDirectory(building)));
      SKERRY_TRY(WriteState(DefaultStateDirectory(building), receipt.state));
    }
    for (const LayoutFile& file : target.files()) {
      SKERRY_ASSIGN(const File shard, File::OpenForReading(building / file.name));
      SKERRY_TRY(shard.Sync());
      SKERRY_TRY(SyncDirectory(shard.path().parent_path()));
    }
    SKERRY_TRY(SyncDirectory(building));
    SKERRY_TRY(CheckResult(patch, base, target, building));
    SKERRY_TRY(Failpoint("rebuild.patched"));
    SKERRY_TRY(Rename(building, absolute));
    SKERRY_TRY(Failpoint("rebuild.renamed"));
    return SyncDirectory(parent);
  };
  if (Status built = build(); !built) {
    // The first error is the one to report.
    [[maybe_unused]] const Status removed = RemoveTree(building);
    return tl::unexpected<Error>(std::move(built).error());
  }
  receipt.apply_seconds = watch.Lap();
  return receipt;
}

}  // namespace skerry
