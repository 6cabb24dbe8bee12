#include "skerry/apply/seed.h"

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/base/failpoint.h"

namespace skerry {
namespace {

constexpr int kMostGenerations = 64;  // of forks

Path Beside(const Path& directory, std::string_view what) {
  return directory.parent_path() / fmt::format(".{}.{}", directory.filename().string(), what);
}

// Version 0 of the run or of one that it was forked from, directly or through others: the one with this model; of the
// run itself where none has it.
Result<Manifest> BaseManifest(const Board& board, const RunId& run, const Digest& model) {
  std::optional<Manifest> own;
  std::optional<RunId> at = run;
  for (int generation = 0; at && generation < kMostGenerations; ++generation) {
    SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(*at, Version(0)));
    if (manifest.model == model) return manifest;
    if (!own) own = std::move(manifest);
    SKERRY_ASSIGN(const RunInfo info, board.ReadRun(*at));
    at = info.parent ? std::optional(info.parent->run) : std::nullopt;
  }
  return *std::move(own);
}

Status CopyInto(const Checkpoint& base, const Path& place) {
  const auto copy = [&](const Path& file) -> Status {
    SKERRY_TRY(MakeDirectories((place / file).parent_path()));
    SKERRY_TRY(CopyFile(base.directory() / file, place / file));
    SKERRY_ASSIGN(const File copied, File::OpenForReading(place / file));
    return copied.Sync();
  };
  for (const LayoutFile& file : base.layout().files()) SKERRY_TRY(copy(file.name));
  for (const SideFileInfo& file : base.side_files()) SKERRY_TRY(copy(file.path));
  return {};
}

Status CheckSideFiles(const Manifest& manifest, const Path& place, const Path& base) {
  for (const SideFile& file : manifest.side_files) {
    const auto content = ReadFile(place / file.path, kMaxSideFileBytes);
    if (!content || Sha256::Of(*content) != file.sha256) {
      return Fail(Code::kMismatch, "{}: {}, but version {} of run {} has SHA-256 {}", (base / file.path).string(),
                  content ? "SHA-256 is " + Sha256::Of(*content).Short() : content.error().message, manifest.version,
                  manifest.run, file.sha256.Short());
    }
  }
  return {};
}

}  // namespace

Status SeedCheckpoint(const Board& board, const RunId& run, const Path& base, const Path& directory, int threads,
                      Progress& progress) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_empty(directory, error)) return {};
  SKERRY_TRY(MakeDirectories(directory.parent_path()));
  SKERRY_ASSIGN([[maybe_unused]] const FileLock lock, FileLock::Acquire(Beside(directory, "lock")));
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_empty(directory, error)) return {};

  const Path seeding = Beside(directory, "seeding");
  SKERRY_TRY(RemoveTree(seeding));
  SKERRY_ASSIGN(const Checkpoint source, Checkpoint::Open(base));
  SKERRY_TRY(RequireSpace(directory.parent_path(), source.layout().total_bytes(), "a copy of the base"));
  SKERRY_TRY(CopyInto(source, seeding));
  SKERRY_TRY(Failpoint("seed.copied"));
  const Status proved = [&]() -> Status {
    SKERRY_ASSIGN(CanonicalCheckpoint copy,
                  CanonicalCheckpoint::Open(seeding, DefaultStateDirectory(seeding), threads, progress));
    SKERRY_ASSIGN(const Manifest manifest, BaseManifest(board, run, copy.state().model));
    if (copy.state().layout != manifest.layout || copy.state().model != manifest.model) {
      return Fail(Code::kMismatch,
                  "{} is not the base of run {}: model digest {}, layout {}; version {} of run {} has {} and {}",
                  base.string(), run, copy.state().model.Short(), copy.state().layout.Short(), manifest.version,
                  manifest.run, manifest.model.Short(), manifest.layout.Short());
    }
    SKERRY_TRY(CheckSideFiles(manifest, seeding, base));
    return copy.Relabel({manifest.run.str(), manifest.version});
  }();
  if (!proved) {
    (void)RemoveTree(seeding);
    return proved;
  }
  SKERRY_TRY(RemoveTree(directory));  // empty, if it is there
  SKERRY_TRY(Rename(seeding, directory));
  SKERRY_TRY(SyncDirectory(directory.parent_path()));
  return Failpoint("seed.renamed");
}

}  // namespace skerry
