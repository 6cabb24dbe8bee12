// How an object is written (PutIfAbsent):
//   1. make the directories above it, sync each parent    crash: empty directories, which nobody reads
//   2. write .tmp-<pid>-<random> beside it                crash: a stray temporary file, which List and Get never show
//   3. fsync it                                           crash: the same
//   4. link it to its name, which fails when that exists  crash: the object is there, whole, and may yet be lost in a
//      power cut: nobody has been told of it. The stray temporary name stays.
//   5. remove the temporary name                          crash: the object is there
//   6. fsync the directory                                the object survives a power cut from here on
// Where there are no hard links, steps 4 and 5 are one renameat2 with RENAME_NOREPLACE. A writer that finds the name
// taken compares the bytes and syncs the directory too: the other writer may have died before its step 6.
//
// How a pointer is replaced (CompareAndSwap):
//   1. flock .<name>.lock beside it, for ever kept        crash: the kernel lets the lock go
//   2. read the object, compare its SHA-256 with the token
//   3. write .tmp-<pid>-<random> and fsync it             crash: old pointer; a stray temporary file
//   4. rename it over the object                          crash: old or new pointer, never a mix
//   5. fsync the directory                                the new pointer survives a power cut from here on
//   6. let the lock go
// A failure at step 5 leaves the new pointer visible: the caller re-reads and finds its own nonce (see Board).
#include "skerry/board/file_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "skerry/base/failpoint.h"
#include "skerry/base/hash.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

constexpr uint64_t kBlock = 4 << 20;
constexpr uint64_t kMaxPointerBytes = 1 << 20;

Generation GenerationOf(ByteSpan bytes) { return Generation(Sha256::Of(bytes).Hex()); }

// A temporary file that is removed unless it got its name.
class Temporary {
 public:
  explicit Temporary(const Path& directory) : path_(TemporaryPath(directory)) {}
  ~Temporary() { ::unlink(path_.c_str()); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const Path& path() const { return path_; }

  Status Write(const ByteSource& source) const {
    if (const FileSource* file = source.AsFile()) {
      SKERRY_TRY(CopyFile(file->path(), path_));
      SKERRY_ASSIGN(const File copy, File::OpenForWriting(path_));
      SKERRY_ASSIGN(const uint64_t size, copy.Size());
      if (size != source.size()) {
        return Fail(Code::kConflict, "{} changed while it was copied: it had {} bytes, the copy has {}",
                    file->path().string(), source.size(), size);
      }
      return copy.Sync();
    }
    SKERRY_ASSIGN(File file, File::Create(path_));
    Bytes block(std::min(source.size(), kBlock));
    for (uint64_t done = 0; done < source.size();) {
      const MutableByteSpan part = MutableByteSpan(block).first(std::min(source.size() - done, kBlock));
      SKERRY_TRY(source.Read(done, part));
      SKERRY_TRY(file.Append(part));
      done += part.size();
    }
    return file.Sync();
  }

 private:
  Path path_;
};

// Whether both have the same bytes; the sizes are known to be equal.
Result<bool> SameContent(const File& file, const ByteSource& source) {
  Bytes here(std::min(source.size(), kBlock)), there(here.size());
  for (uint64_t done = 0; done < source.size();) {
    const uint64_t size = std::min(source.size() - done, kBlock);
    SKERRY_TRY(file.ReadAt(MutableByteSpan(here).first(size), done));
    SKERRY_TRY(source.Read(done, MutableByteSpan(there).first(size)));
    if (!std::equal(here.begin(), here.begin() + static_cast<ptrdiff_t>(size), there.begin())) return false;
    done += size;
  }
  return true;
}

bool IsRegularFile(const Path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Adds the keys below `directory` (with the key prefix `base`) that begin with `prefix`. What vanishes meanwhile is
// passed over.
Status ListBelow(const Path& directory, const std::string& base, std::string_view prefix,
                 std::vector<std::string>& keys) {
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string key = base + at->path().filename().string();
    if (!ValidateKey(key)) continue;
    std::error_code ignored;
    if (at->symlink_status(ignored).type() == std::filesystem::file_type::directory) {
      const std::string below = key + "/";
      const size_t common = std::min(below.size(), prefix.size());
      if (below.compare(0, common, prefix, 0, common) == 0) SKERRY_TRY(ListBelow(at->path(), below, prefix, keys));
    } else if (key.starts_with(prefix) && at->is_regular_file(ignored)) {
      keys.push_back(key);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    return ErrnoFailure(error.value(), "list", directory);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<FileStore>> FileStore::Open(const Path& root, bool create) {
  std::error_code error;
  Path absolute = std::filesystem::absolute(root, error).lexically_normal();
  if (error) return ErrnoFailure(error.value(), "find", root);
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "board/"
  const auto status = std::filesystem::status(absolute, error);
  if (status.type() == std::filesystem::file_type::none) return ErrnoFailure(error.value(), "look at", absolute);
  if (status.type() == std::filesystem::file_type::not_found) {
    if (!create) return Fail(Code::kNotFound, "no board at {}: there is no such directory", absolute.string());
    SKERRY_TRY(MakeDirectories(absolute));
    SKERRY_TRY(SyncDirectory(absolute.parent_path()));
  } else if (status.type() != std::filesystem::file_type::directory) {
    return Fail(Code::kInvalid, "{} is not a directory, so it can't hold a board", absolute.string());
  }
  std::shared_ptr<FileStore> store(new FileStore(absolute));
  const Result<NoReplace> how = store->HowToPublish();
  if (!how && how.error().code == Code::kUnsupported) return tl::unexpected<Error>(how.error());
  return store;
}

Result<NoReplace> FileStore::HowToPublish() {
  const std::lock_guard lock(mutex_);
  if (!how_) {
    SKERRY_ASSIGN(how_, ProbeFileSystem(root_));
  }
  return *how_;
}

Result<Path> FileStore::PathOf(std::string_view key) const {
  SKERRY_TRY(ValidateKey(key));
  return root_ / key;
}

Result<File> FileStore::OpenObject(std::string_view key) const {
  SKERRY_ASSIGN(const Path path, PathOf(key));
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 && errno != ENOENT && errno != ENOTDIR) {
    return ErrnoFailure(errno, "look at", path);
  }
  if (!S_ISREG(info.st_mode)) return Fail(Code::kNotFound, "no object {} in {}", key, root_.string());
  return File::OpenForReading(path);
}

Result<Object> FileStore::Get(std::string_view key, uint64_t limit) {
  SKERRY_ASSIGN(const File file, OpenObject(key));
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  if (size > limit) {
    return Fail(Code::kCorrupt, "{} has {} bytes, more than the limit of {}", file.path().string(), size, limit);
  }
  Bytes bytes(size);
  SKERRY_TRY(file.ReadAt(bytes, 0));
  Generation generation = GenerationOf(bytes);
  return Object{std::move(bytes), std::move(generation)};
}

Status FileStore::ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) {
  SKERRY_ASSIGN(const File file, OpenObject(key));
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  if (offset > size || out.size() > size - offset) {
    return Fail(Code::kCorrupt, "{} has {} bytes, but {} bytes at {} were asked for", file.path().string(), size,
                out.size(), offset);
  }
  return file.ReadAt(out, offset);
}

Result<ObjectInfo> FileStore::Stat(std::string_view key) {
  SKERRY_ASSIGN(const File file, OpenObject(key));
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  return ObjectInfo{.size = size};
}

Status FileStore::PrepareDirectory(const Path& directory) {
  {
    const std::lock_guard lock(mutex_);
    if (synced_directories_.contains(directory) && std::filesystem::is_directory(directory)) return {};
  }
  if (directory != root_) {
    SKERRY_TRY(PrepareDirectory(directory.parent_path()));
    if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoFailure(errno, "make directory", directory);
    }
    if (!std::filesystem::is_directory(directory)) {
      return Fail(Code::kConflict, "{} is an object, so none can lie below it", directory.string());
    }
    SKERRY_TRY(SyncDirectory(directory.parent_path()));
  }
  const std::lock_guard lock(mutex_);
  synced_directories_.insert(directory);
  return {};
}

Status FileStore::CompareWithExisting(std::string_view key, const Path& path, const ByteSource& source) const {
  SKERRY_ASSIGN(const FileSource existing, FileSource::Open(path));
  bool same = existing.size() == source.size();
  if (same) {
    SKERRY_ASSIGN(same, SameContent(existing.file(), source));
  }
  if (!same) {
    SKERRY_ASSIGN(const Digest there, DigestOf(existing));
    SKERRY_ASSIGN(const Digest given, DigestOf(source));
    return Fail(Code::kConflict, "{} holds other bytes already: {} bytes with SHA-256 {}, not {} with {}", key,
                existing.size(), there.Short(), source.size(), given.Short());
  }
  return SyncDirectory(path.parent_path());
}

Status FileStore::PutIfAbsent(std::string_view key, const ByteSource& source) {
  SKERRY_ASSIGN(const Path path, PathOf(key));
  SKERRY_ASSIGN(const NoReplace how, HowToPublish());
  SKERRY_TRY(PrepareDirectory(path.parent_path()));
  if (IsRegularFile(path)) return CompareWithExisting(key, path, source);

  const FileSource* file = source.AsFile();
  bool shared = false;
  if (file != nullptr && file->may_hard_link()) {
    SKERRY_TRY(file->file().Sync());
    const Result<bool> done = ShareFile(file->path(), path);
    if (!done && done.error().code == Code::kConflict) return CompareWithExisting(key, path, source);
    SKERRY_ASSIGN(shared, done);
  }
  if (!shared) {
    const Temporary temporary(path.parent_path());
    SKERRY_TRY(temporary.Write(source));
    SKERRY_TRY(Failpoint("store.temp_written"));
    const Status published = PublishFile(temporary.path(), path, how);
    if (!published && published.error().code == Code::kConflict) return CompareWithExisting(key, path, source);
    SKERRY_TRY(published);
  }
  return SyncDirectory(path.parent_path());
}

Result<Generation> FileStore::CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                             ByteSpan bytes) {
  SKERRY_ASSIGN(const Path path, PathOf(key));
  SKERRY_TRY(HowToPublish());
  const Path directory = path.parent_path();
  SKERRY_TRY(PrepareDirectory(directory));
  SKERRY_ASSIGN(const FileLock lock, FileLock::Acquire(directory / ("." + path.filename().string() + ".lock")));
  SKERRY_TRY(Failpoint("store.cas_locked"));

  std::optional<Generation> current;
  if (Result<Object> object = Get(key, kMaxPointerBytes)) {
    current = std::move(object->generation);
  } else if (object.error().code != Code::kNotFound) {
    return tl::unexpected<Error>(std::move(object).error());
  }
  if (current != expected) return Fail(Code::kConflict, "{} is not what it was: somebody else wrote it", key);

  const Temporary temporary(directory);
  SKERRY_TRY(temporary.Write(MemorySource(bytes)));
  SKERRY_TRY(Failpoint("store.cas_temp_written"));
  SKERRY_TRY(Rename(temporary.path(), path));
  SKERRY_TRY(Failpoint("store.cas_renamed"));
  SKERRY_TRY(SyncDirectory(directory));
  return GenerationOf(bytes);
}

Status FileStore::Delete(std::string_view key) {
  SKERRY_ASSIGN(const Path path, PathOf(key));
  if (!IsRegularFile(path)) return {};
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoFailure(errno, "remove", path);
  return SyncDirectory(path.parent_path());
}

Status FileStore::DeleteEmptyFolder(std::string_view prefix) {
  if (prefix.ends_with('/')) prefix.remove_suffix(1);
  SKERRY_ASSIGN(const Path path, PathOf(prefix));
  return RemoveTree(path);
}

Result<std::vector<std::string>> FileStore::List(std::string_view prefix) {
  std::vector<std::string> keys;
  SKERRY_TRY(ListBelow(root_, "", prefix, keys));
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<std::vector<std::string>> FileStore::ListNames(std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty()) SKERRY_TRY(ValidateKey(prefix));
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(root_ / prefix, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::string name = at->path().filename().string();
    if (ValidateKey(name)) names.push_back(std::move(name));
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    return ErrnoFailure(error.value(), "list", root_ / prefix);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Path> FileStore::LocalPath(std::string_view key) const {
  if (!ValidateKey(key)) return std::nullopt;
  return root_ / key;
}

}  // namespace skerry
