#include "skerry/apply/seed.h"

#include <set>

#include "skerry/apply/beside.h"
#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/check_side_files.h"
#include "skerry/base/failpoint.h"
#include "skerry/board/forebears.h"

namespace skerry {
namespace {

// Version 0 of the run or of one that it was forked from, directly or through others: the one with this model; of the
// run itself where none has it.
Result<Manifest> BaseManifest(const Board& board, const RunId& run, const Digest& model) {
  SKERRY_ASSIGN(Manifest own, board.ReadManifest(run, Version(0)));
  if (own.model == model) return own;
  SKERRY_ASSIGN(const std::vector<RunId> forebears, ForebearsOf(board, run));
  for (const RunId& forebear : forebears) {
    SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(forebear, Version(0)));
    if (manifest.model == model) return manifest;
  }
  return own;
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

// A directory at hand may hold more than the version has, such as a tokenizer's older files.
Status RemoveOtherSideFiles(const Manifest& manifest, const Checkpoint& base, const Path& place) {
  std::set<std::string> named;
  for (const SideFile& file : manifest.side_files) named.insert(file.path);
  for (const SideFileInfo& file : base.side_files()) {
    if (named.count(file.path) == 0) SKERRY_TRY(RemoveTree(place / file.path));
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
    const Status same = CheckSideFiles(manifest, seeding);
    if (!same && same.error().code != Code::kCorrupt) return same;
    if (!same) {
      return Fail(Code::kMismatch, "{} is not the base of run {}: {}", base.string(), run, same.error().message);
    }
    SKERRY_TRY(RemoveOtherSideFiles(manifest, source, seeding));
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
