// A board in a directory: a local disk, a tmpfs, NFS, or any mounted file system where rename and flock really work.
#ifndef SKERRY_BOARD_FILE_STORE_H_
#define SKERRY_BOARD_FILE_STORE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "skerry/board/file_publication.h"
#include "skerry/board/store.h"

namespace skerry {

// Objects are files at <root>/<key>. Names that begin with '.' are temporary and lock files, never objects. No
// descriptor stays open between calls, so a lost mount or a refresh is never blocked. Thread-safe.
class FileStore : public Store {
 public:
  // `create` makes the directory; without it a missing one is kNotFound. Tries rename, link and flock there and refuses
  // (kUnsupported) a file system where they do not work. Where they could not be tried (read-only, full), reading
  // works, and the first write tries again and reports why not.
  static Result<std::shared_ptr<FileStore>> Open(const Path& root, bool create);

  std::string Describe() const override { return "directory " + root_.string(); }
  Result<Object> Get(std::string_view key, uint64_t limit) override;
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override;
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override;
  Status Delete(std::string_view key) override;
  Status DeleteEmptyFolder(std::string_view prefix) override;
  Result<std::vector<std::string>> List(std::string_view prefix) override;
  Result<std::vector<std::string>> ListNames(std::string_view prefix) override;
  // Temporary files that nobody has written to for that long, when their writer is not alive on this host or they have
  // lain there for a day (the writer's number may belong to another process).
  Result<uint64_t> SweepLeftovers(std::chrono::seconds older_than) override;
  std::optional<Path> LocalPath(std::string_view key) const override;

  const Path& root() const { return root_; }

 private:
  explicit FileStore(Path root) : root_(std::move(root)) {}

  Result<Path> PathOf(std::string_view key) const;
  Result<File> OpenObject(std::string_view key) const;
  // How a file can get its name here without replacing another; probes the directory when that is not yet known.
  Result<NoReplace> HowToPublish();
  // Makes and syncs the directories above `path`, as far as this store has not done so already.
  Status PrepareDirectory(const Path& path);
  Status CompareWithExisting(std::string_view key, const Path& path, const ByteSource& source) const;

  const Path root_;
  std::mutex mutex_;
  std::optional<NoReplace> how_;       // guarded by mutex_
  std::set<Path> synced_directories_;  // guarded by mutex_
};

}  // namespace skerry

#endif  // SKERRY_BOARD_FILE_STORE_H_
