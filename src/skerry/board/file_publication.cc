#include "skerry/board/file_publication.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "skerry/base/failpoint.h"
#include "skerry/board/names.h"

namespace skerry {
namespace {

// The error number of a system call, or what a failpoint pretends it to be; 0 when it went well.
template <typename Call>
int ErrnoOf(std::string_view failpoint, Call call) {
  if (const int pretended = FailpointErrno(failpoint); pretended != 0) return pretended;
  return call() == 0 ? 0 : errno;
}
int Link(const Path& from, const Path& to) {
  return ErrnoOf("file.link", [&] { return ::link(from.c_str(), to.c_str()); });
}
int RenameNoReplace(const Path& from, const Path& to) {
  return ErrnoOf("file.rename",
                 [&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE); });
}
int RenameOver(const Path& from, const Path& to) {
  return ErrnoOf("file.rename", [&] { return ::rename(from.c_str(), to.c_str()); });
}
int LockNow(const File& file) {
  return ErrnoOf("file.lock", [&] { return ::flock(file.descriptor(), LOCK_EX | LOCK_NB); });
}

// What file systems answer to calls that they do not have. Not here: EIO, ENOSPC, EACCES, EROFS and other accidents.
bool MeansUnsupported(int error_number) {
  return error_number == ENOSYS || error_number == EOPNOTSUPP || error_number == EPERM || error_number == EINVAL ||
         error_number == ENOLCK || error_number == ENOTTY;
}

tl::unexpected<Error> Unfit(const Path& directory, std::string_view call, std::string_view flaw) {
  return Fail(Code::kUnsupported,
              "the file system at {} can't hold a board: {} does not work there ({}); use an S3 board "
              "(s3://bucket/prefix) or a directory on another file system",
              directory.string(), call, flaw);
}

// The failed call makes the file system unfit, or is an accident that says nothing about it.
tl::unexpected<Error> Judge(int error_number, const Path& directory, std::string_view call) {
  if (MeansUnsupported(error_number)) return Unfit(directory, call, std::strerror(error_number));
  return ErrnoFailure(error_number, std::string("try ") + std::string(call) + " in", directory);
}

// Files that vanish with the object.
struct ProbeFiles {
  explicit ProbeFiles(const Path& directory) {
    for (Path& path : paths) path = TemporaryPath(directory);
  }
  ~ProbeFiles() {
    for (const Path& path : paths) ::unlink(path.c_str());
  }
  Path paths[5];
};

Status Write(const Path& path, std::string_view text) {
  SKERRY_ASSIGN(File file, File::Create(path));
  return file.Append(AsBytes(text));
}

Status ProbeRename(const Path& directory) {
  const ProbeFiles files(directory);
  const Path &from = files.paths[0], &to = files.paths[1];
  SKERRY_TRY(Write(from, "new"));
  SKERRY_TRY(Write(to, "old"));
  if (const int number = RenameOver(from, to); number != 0) return Judge(number, directory, "rename");
  SKERRY_ASSIGN(const Bytes now, ReadFile(to, 16));
  if (AsText(now) != "new") return Unfit(directory, "rename", "it reports success but replaces nothing");
  return {};
}

Result<NoReplace> ProbeNoReplace(const Path& directory) {
  const ProbeFiles files(directory);
  SKERRY_TRY(Write(files.paths[0], "a"));
  SKERRY_TRY(Write(files.paths[1], "b"));
  const int linked = Link(files.paths[0], files.paths[2]);
  if (linked == 0) {
    const int again = Link(files.paths[1], files.paths[2]);
    if (again == EEXIST) return NoReplace::kLink;
    if (again != 0) return Judge(again, directory, "link");
    return Unfit(directory, "link", "it does not refuse a name that is taken");
  }
  if (!MeansUnsupported(linked)) return Judge(linked, directory, "link");
  const int renamed = RenameNoReplace(files.paths[0], files.paths[3]);
  if (renamed != 0) return Judge(renamed, directory, "neither link nor renameat2 with RENAME_NOREPLACE");
  const int again = RenameNoReplace(files.paths[1], files.paths[3]);
  if (again == EEXIST) return NoReplace::kRename;
  if (again != 0) return Judge(again, directory, "renameat2 with RENAME_NOREPLACE");
  return Unfit(directory, "renameat2 with RENAME_NOREPLACE", "it does not refuse a name that is taken");
}

Status ProbeLock(const Path& directory) {
  const ProbeFiles files(directory);
  SKERRY_ASSIGN(const File first, File::Create(files.paths[0]));
  SKERRY_ASSIGN(const File second, File::OpenForWriting(files.paths[0]));
  if (const int number = LockNow(first); number != 0) return Judge(number, directory, "flock");
  const int again = LockNow(second);
  if (again == 0) return Unfit(directory, "flock", "two holders have the same lock");
  return again == EWOULDBLOCK ? Status() : Judge(again, directory, "flock");
}

}  // namespace

Path TemporaryPath(const Path& directory) {
  return directory / fmt::format(".tmp-{}-{}", ::getpid(), RandomToken().substr(0, 16));
}

Status PublishFile(const Path& temporary, const Path& path, NoReplace how) {
  const int number = how == NoReplace::kLink ? Link(temporary, path) : RenameNoReplace(temporary, path);
  if (number != 0) return ErrnoFailure(number, "name " + temporary.string(), path);
  SKERRY_TRY(Failpoint("store.object_linked"));
  if (how == NoReplace::kLink) ::unlink(temporary.c_str());
  return {};
}

Result<bool> ShareFile(const Path& existing, const Path& path) {
  const int number = Link(existing, path);
  if (number == EXDEV || number == EMLINK || MeansUnsupported(number)) return false;
  if (number != 0) return ErrnoFailure(number, "link " + existing.string() + " to", path);
  SKERRY_TRY(Failpoint("store.object_linked"));
  return true;
}

Result<NoReplace> ProbeFileSystem(const Path& directory) {
  SKERRY_TRY(ProbeRename(directory));
  SKERRY_TRY(ProbeLock(directory));
  return ProbeNoReplace(directory);
}

}  // namespace skerry
