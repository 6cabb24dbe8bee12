// Files and directories with errors as values. All names of system calls go through here, so that a failpoint can make
// any of them fail the way a full disk, an odd file system or a lost mount would.
#ifndef SKERRY_BASE_FILE_H_
#define SKERRY_BASE_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"

namespace skerry {

using Path = std::filesystem::path;

// An error from errno: "cannot <what> <path>: <strerror>".
tl::unexpected<Error> ErrnoFailure(int error_number, std::string_view what, const Path& path);

// An open file descriptor. Reads and writes at offsets may be made from several threads at once.
class File {
 public:
  File() = default;
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  static Result<File> OpenForReading(const Path& path);
  static Result<File> OpenForWriting(const Path& path);  // must exist; keeps its content
  static Result<File> Create(const Path& path);          // truncates what is there
  static Result<File> OpenOrCreate(const Path& path);    // read and write, for lock files
  // kConflict when something has that name. `mode` is lessened by the process's umask.
  static Result<File> CreateNew(const Path& path, unsigned mode);

  Result<uint64_t> Size() const;
  // Fills the whole span or fails: a file that ends early is kCorrupt.
  Status ReadAt(MutableByteSpan out, uint64_t offset) const;
  Status WriteAt(ByteSpan bytes, uint64_t offset) const;
  Status Append(ByteSpan bytes);
  Status Sync() const;
  Status Truncate(uint64_t size) const;

  int descriptor() const { return descriptor_; }
  const Path& path() const { return path_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  File(int descriptor, Path path) : descriptor_(descriptor), path_(std::move(path)) {}
  static Result<File> Open(const Path& path, int flags, unsigned mode = 0644);

  int descriptor_ = -1;
  uint64_t appended_ = 0;
  Path path_;
};

// An exclusive advisory lock (flock) held for the lifetime of the object. The kernel drops it when the holder dies.
class FileLock {
 public:
  static Result<FileLock> Acquire(const Path& path);     // waits
  static Result<FileLock> TryAcquire(const Path& path);  // kConflict when somebody holds it

 private:
  explicit FileLock(File file) : file_(std::move(file)) {}
  File file_;
};

// Whole small files. Reading refuses more than `limit` bytes before it allocates.
Result<Bytes> ReadFile(const Path& path, uint64_t limit);

// Replaces `path` so that a crash leaves the old or the new content, never a mix:
//   1. write a temporary file beside it   crash: it stays until it is swept (temporary.h)
//   2. fsync it                 crash: the same
//   3. rename over `path`       crash: old or new
//   4. fsync the directory      after this the new content survives a power cut
Status WriteFileAtomically(const Path& path, ByteSpan bytes);

Status Rename(const Path& from, const Path& to);
// Both must exist; swaps them in one step.
Status ExchangePaths(const Path& a, const Path& b);
Status SyncDirectory(const Path& directory);
// With all that is missing above it; each new one is durable in its parent.
Status MakeDirectories(const Path& directory);
Status RemoveTree(const Path& path);

// Copies the content (reflink or in-kernel where the file system can) into a new file and syncs nothing. An
// interruption point before each 64 MiB.
Status CopyFile(const Path& from, const Path& to);

// Bytes that an unprivileged process may still write below `directory`.
Result<uint64_t> FreeSpace(const Path& directory);
// kNoSpace, naming both figures, when less than `needed` is free.
Status RequireSpace(const Path& directory, uint64_t needed, std::string_view purpose);

}  // namespace skerry

#endif  // SKERRY_BASE_FILE_H_
