#include "skerry/pull/pinned_file.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace skerry {
namespace {

// Whether the path still leads to the open file.
bool IsStillAt(const File& file, const Path& path) {
  struct stat open{}, named{};
  if (::fstat(file.descriptor(), &open) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

Status Flock(const File& file, int operation) {
  int status = 0;
  do {
    status = ::flock(file.descriptor(), operation);
  } while (status != 0 && errno == EINTR);
  // A file system that has no locks is used by one process at a time, or at the user's own risk.
  if (status == 0 || errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return {};
  return ErrnoFailure(errno, "lock", file.path());
}

}  // namespace

Result<PinnedFile> PinnedFile::Lock(Result<File> (*open)(const Path&), const Path& path, int operation) {
  // Who waited may hold a file that was renamed or removed meanwhile.
  while (true) {
    SKERRY_ASSIGN(File file, open(path));
    SKERRY_TRY(Flock(file, operation));
    if (IsStillAt(file, path)) return PinnedFile(std::move(file));
  }
}

Result<PinnedFile> PinnedFile::Share(const Path& path) { return Lock(&File::OpenForReading, path, LOCK_SH); }

Result<PinnedFile> PinnedFile::Own(const Path& path) { return Lock(&File::OpenOrCreate, path, LOCK_EX); }

Status PinnedFile::Downgrade(const Path& path) {
  SKERRY_TRY(Flock(file_, LOCK_SH));
  if (!IsStillAt(file_, path)) return Fail(Code::kNotFound, "{} was removed", path.string());
  return {};
}

bool RemoveUnlessPinned(const Path& path) {
  const Result<File> file = File::OpenForReading(path);
  if (!file || !Flock(*file, LOCK_EX | LOCK_NB) || !IsStillAt(*file, path)) return false;
  return ::unlink(path.c_str()) == 0;
}

bool IsPinned(const Path& path) {
  const Result<File> file = File::OpenForReading(path);
  return file && !Flock(*file, LOCK_EX | LOCK_NB);
}

}  // namespace skerry
