// Fetched objects that stay on the local disk, within a bound, for who needs them next.
#ifndef SKERRY_PULL_OBJECT_CACHE_H_
#define SKERRY_PULL_OBJECT_CACHE_H_

#include <chrono>
#include <cstdint>

#include "skerry/base/clock.h"
#include "skerry/base/file.h"
#include "skerry/board/references.h"
#include "skerry/pull/pinned_file.h"

namespace skerry {

// A folder of objects named by their SHA-256, with what is being fetched in .part files. All of it together has at most
// `bound` bytes: the least recently used objects go first, those that somebody has pinned stay, and abandoned .part
// files count as objects. When an object was last used is its file's modification time. Several processes and threads
// may share the folder: making room is done under `lock` in it, an object is in use while its PinnedFile lives. On a
// local file system.
class ObjectCache {
 public:
  // .part files that nobody has written to for so long are given up.
  static constexpr std::chrono::hours kStaleAfter{24};

  // Makes the folder, sweeps stale .part files and what is over the bound. `bound` is not 0.
  static Result<ObjectCache> Open(Path directory, uint64_t bound, const Clock& clock = Clock::System());

  const Path& directory() const { return directory_; }
  uint64_t bound() const { return bound_; }

  Path PathOf(const ObjectRef& object) const;
  // Whether the folder has a file of that name and size; its content is checked by who fetches it.
  bool Has(const ObjectRef& object) const;

  // Whether `bytes` more can be had by removing what is not in use: changes nothing. kNoSpace, naming what is needed
  // and what the bound or the disk allows.
  Status CheckRoom(uint64_t bytes) const;
  // The same for an object of which `present` bytes are in its .part file, and then removes the least recently used
  // until the rest is within the bound and free on the disk. Nothing is removed where that can't be reached. Until the
  // lock is dropped nobody else takes the room: the caller gives its .part file the full length first.
  Result<FileLock> MakeRoom(const ObjectRef& object, uint64_t present) const;
  // Held while a file of the folder gets another name: who lists the folder meanwhile might miss it under both.
  Result<FileLock> LockNames() const;
  // Says that the object was used.
  void Touch(const ObjectRef& object) const;

 private:
  struct Entry;
  struct Content;

  ObjectCache(Path directory, uint64_t bound, const Clock& clock)
      : directory_(std::move(directory)), bound_(bound), clock_(&clock) {}

  // `keep`: a .part file that stays.
  Result<Content> Look(const Path& keep = {}) const;
  // How many bytes have to go for `bytes` more; kNoSpace when even all that is removable is too little.
  Result<uint64_t> ToRemove(const Content& content, uint64_t bytes) const;
  void SweepStale() const;

  Path directory_;
  uint64_t bound_;
  const Clock* clock_;
};

}  // namespace skerry

#endif  // SKERRY_PULL_OBJECT_CACHE_H_
