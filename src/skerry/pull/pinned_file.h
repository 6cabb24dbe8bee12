// Files that several processes use and remove: who uses one locks it, who wants to remove it asks first.
#ifndef SKERRY_PULL_PINNED_FILE_H_
#define SKERRY_PULL_PINNED_FILE_H_

#include <optional>

#include "skerry/base/file.h"

namespace skerry {

// A file under a flock of its own, shared or exclusive, that is still at its path. The kernel drops the lock when the
// holder dies. On a file system without flock the file is simply open.
class PinnedFile {
 public:
  PinnedFile() = default;

  // Shared: RemoveUnlessPinned leaves it alone. kNotFound when there is none; waits while somebody has it exclusively.
  static Result<PinnedFile> Share(const Path& path);
  // Exclusive, made if missing; waits for other holders.
  static Result<PinnedFile> Own(const Path& path);

  // From exclusive to shared. Somebody may remove it in between: kNotFound.
  Status Downgrade(const Path& path);

  const File& file() const { return file_; }
  bool held() const { return file_.is_open(); }

 private:
  explicit PinnedFile(File file) : file_(std::move(file)) {}
  static Result<PinnedFile> Lock(Result<File> (*open)(const Path&), const Path& path, int operation);
  File file_;
};

// False where somebody has it pinned, or it can't be removed.
bool RemoveUnlessPinned(const Path& path);
bool IsPinned(const Path& path);

}  // namespace skerry

#endif  // SKERRY_PULL_PINNED_FILE_H_
