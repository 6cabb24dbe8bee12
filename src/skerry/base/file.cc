#include "skerry/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "skerry/base/failpoint.h"
#include "skerry/base/interrupt.h"
#include "skerry/base/temporary.h"

namespace skerry {
namespace {

constexpr uint64_t kCopyPiece = 64 << 20;

Code CodeOf(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return Code::kNotFound;
    case EEXIST: return Code::kConflict;
    case ENOSPC:
    case EDQUOT: return Code::kNoSpace;
    case ENOSYS:
    case EOPNOTSUPP: return Code::kUnsupported;
    case EAGAIN:
    case ETIMEDOUT:
    case ESTALE: return Code::kUnavailable;
    default: return Code::kIo;
  }
}

// Runs a system call unless a failpoint pretends its failure.
template <typename Call>
int WithFailpoint(std::string_view name, Call call) {
  if (const int pretended = FailpointErrno(name); pretended != 0) {
    errno = pretended;
    return -1;
  }
  return call();
}

}  // namespace

tl::unexpected<Error> ErrnoFailure(int error_number, std::string_view what, const Path& path) {
  return Fail(CodeOf(error_number), "cannot {} {}: {}", what, path.string(), std::strerror(error_number));
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}
File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), appended_(other.appended_), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(appended_, other.appended_);
  std::swap(path_, other.path_);
  return *this;
}

Result<File> File::Open(const Path& path, int flags, unsigned mode) {
  const int descriptor = WithFailpoint("file.open", [&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (descriptor < 0) return ErrnoFailure(errno, "open", path);
  File file(descriptor, path);
  struct stat info{};
  if (::fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
    return Fail(Code::kInvalid, "{} is a directory, not a file", path.string());
  }
  return file;
}

Result<File> File::OpenForReading(const Path& path) { return Open(path, O_RDONLY); }
Result<File> File::OpenForWriting(const Path& path) { return Open(path, O_RDWR); }
Result<File> File::Create(const Path& path) { return Open(path, O_RDWR | O_CREAT | O_TRUNC); }
Result<File> File::OpenOrCreate(const Path& path) { return Open(path, O_RDWR | O_CREAT); }
Result<File> File::CreateNew(const Path& path, unsigned mode) { return Open(path, O_RDWR | O_CREAT | O_EXCL, mode); }

Result<uint64_t> File::Size() const {
  struct stat info{};
  if (::fstat(descriptor_, &info) != 0) return ErrnoFailure(errno, "stat", path_);
  return static_cast<uint64_t>(info.st_size);
}

Status File::ReadAt(MutableByteSpan out, uint64_t offset) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoFailure(errno, "read", path_);
    if (n == 0) {
      return Fail(Code::kCorrupt, "{} ends at byte {}, but bytes up to {} were expected", path_.string(), offset + done,
                  offset + out.size());
    }
    done += static_cast<size_t>(n);
  }
  return {};
}

Status File::WriteAt(ByteSpan bytes, uint64_t offset) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        WithFailpoint("file.write", [&] { return 0; }) < 0
            ? -1
            : ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoFailure(errno, "write", path_);
    done += static_cast<size_t>(n);
  }
  return {};
}

Status File::Append(ByteSpan bytes) {
  SKERRY_TRY(WriteAt(bytes, appended_));
  appended_ += bytes.size();
  return {};
}

Status File::Sync() const {
  if (WithFailpoint("file.sync", [&] { return ::fsync(descriptor_); }) != 0) return ErrnoFailure(errno, "fsync", path_);
  return {};
}

Status File::Truncate(uint64_t size) const {
  if (WithFailpoint("file.write", [&] { return ::ftruncate(descriptor_, static_cast<off_t>(size)); }) != 0) {
    return ErrnoFailure(errno, "resize", path_);
  }
  return {};
}

Result<FileLock> FileLock::Acquire(const Path& path) {
  SKERRY_ASSIGN(File file, File::OpenOrCreate(path));
  int status = 0;
  do {
    status = WithFailpoint("file.lock", [&] { return ::flock(file.descriptor(), LOCK_EX); });
  } while (status != 0 && errno == EINTR);
  if (status != 0) return ErrnoFailure(errno, "lock", path);
  return FileLock(std::move(file));
}

Result<FileLock> FileLock::TryAcquire(const Path& path) {
  SKERRY_ASSIGN(File file, File::OpenOrCreate(path));
  if (WithFailpoint("file.lock", [&] { return ::flock(file.descriptor(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK) return Fail(Code::kConflict, "{} is locked by another process", path.string());
    return ErrnoFailure(errno, "lock", path);
  }
  return FileLock(std::move(file));
}

Result<Bytes> ReadFile(const Path& path, uint64_t limit) {
  SKERRY_ASSIGN(const File file, File::OpenForReading(path));
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  if (size > limit) {
    return Fail(Code::kCorrupt, "{} has {} bytes, more than the limit of {}", path.string(), size, limit);
  }
  Bytes bytes(size);
  SKERRY_TRY(file.ReadAt(bytes, 0));
  return bytes;
}

Status WriteFileAtomically(const Path& path, ByteSpan bytes) {
  const Path temporary = TemporaryBeside(path);
  const Status written = [&]() -> Status {
    SKERRY_ASSIGN(File file, File::Create(temporary));
    SKERRY_TRY(file.Append(bytes));
    SKERRY_TRY(file.Sync());
    return Rename(temporary, path);
  }();
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  return SyncDirectory(path.parent_path());
}

Status Rename(const Path& from, const Path& to) {
  if (WithFailpoint("file.rename", [&] { return ::rename(from.c_str(), to.c_str()); }) != 0) {
    return ErrnoFailure(errno, "rename " + from.string() + " to", to);
  }
  return {};
}

Status ExchangePaths(const Path& a, const Path& b) {
  if (WithFailpoint("file.rename",
                    [&] { return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); }) != 0) {
    return ErrnoFailure(errno, "exchange " + a.string() + " with", b);
  }
  return {};
}

Status SyncDirectory(const Path& directory) {
  const Path target = directory.empty() ? Path(".") : directory;
  const int descriptor = ::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return ErrnoFailure(errno, "open", target);
  const int status = WithFailpoint("file.sync", [&] { return ::fsync(descriptor); });
  const int error_number = errno;
  ::close(descriptor);
  if (status != 0) return ErrnoFailure(error_number, "fsync", target);
  return {};
}

Status MakeDirectories(const Path& directory) {
  std::error_code error;
  if (directory.empty() || std::filesystem::is_directory(directory, error)) return {};
  SKERRY_TRY(MakeDirectories(directory.parent_path()));
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoFailure(errno, "make directory", directory);
  if (!std::filesystem::is_directory(directory, error)) return ErrnoFailure(ENOTDIR, "make directory", directory);
  return SyncDirectory(directory.parent_path());
}

Status RemoveTree(const Path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoFailure(error.value(), "remove", path);
  return {};
}

Status CopyFile(const Path& from, const Path& to) {
  SKERRY_ASSIGN(const File source, File::OpenForReading(from));
  SKERRY_ASSIGN(File target, File::Create(to));
  SKERRY_ASSIGN(const uint64_t size, source.Size());
  uint64_t done = 0;
  while (done < size) {
    SKERRY_TRY(CheckInterrupt());
    const ssize_t n = WithFailpoint("file.write", [&] { return 0; }) < 0
                          ? -1
                          : ::copy_file_range(source.descriptor(), nullptr, target.descriptor(), nullptr,
                                              std::min(size - done, kCopyPiece), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EXDEV || errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP)) break;
    if (n < 0) return ErrnoFailure(errno, "copy " + from.string() + " to", to);
    if (n == 0) return Fail(Code::kCorrupt, "{} ends at byte {} of {}", from.string(), done, size);
    done += static_cast<uint64_t>(n);
  }
  Bytes buffer(done < size ? std::min<uint64_t>(size - done, 4 << 20) : 0);
  for (; done < size; done += buffer.size()) {
    if (size - done < buffer.size()) buffer.resize(size - done);
    SKERRY_TRY(CheckInterrupt());
    SKERRY_TRY(source.ReadAt(buffer, done));
    SKERRY_TRY(target.WriteAt(buffer, done));
  }
  return {};
}

Result<uint64_t> FreeSpace(const Path& directory) {
  struct statvfs info{};
  if (::statvfs(directory.c_str(), &info) != 0) return ErrnoFailure(errno, "look at the free space of", directory);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

Status RequireSpace(const Path& directory, uint64_t needed, std::string_view purpose) {
  SKERRY_ASSIGN(const uint64_t free, FreeSpace(directory));
  if (free < needed) {
    return Fail(Code::kNoSpace, "{} needs {} bytes in {}, but {} are free", purpose, needed, directory.string(), free);
  }
  return {};
}

}  // namespace skerry
