// Objects of a board that stay on the local disk, within a bound.
#ifndef SKERRY_RELAY_DISK_CACHE_H_
#define SKERRY_RELAY_DISK_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/hash.h"

namespace skerry {

// DIR/objects/<key>, each whole; DIR/filling/ has what is being written. All together have at most `bound` bytes: the
// least recently used go first, pinned ones never. One process a folder (DIR/lock). Nothing is fsynced: after a start
// no object counts as checked, and one that was torn by a power cut is found by its SHA-256. A kill leaves whole
// objects, and in filling/ what the next start removes. Thread-safe.
class DiskCache {
 public:
  // Room for one object. Given back when it is gone and was not kept.
  class Room {
   public:
    Room(DiskCache& cache, Path path, uint64_t size) : cache_(cache), path_(std::move(path)), size_(size) {}
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    friend class DiskCache;
    DiskCache& cache_;
    Path path_;  // empty once it was kept
    const uint64_t size_;
  };
  struct Place {
    File file;  // of full length
    std::unique_ptr<Room> room;
  };
  struct Counts {
    uint64_t bytes = 0, bound = 0, objects = 0, pinned_bytes = 0, evicted_bytes = 0;
  };

  // Makes the folder, or takes over what is in it. kConflict when another process has it.
  static Result<std::unique_ptr<DiskCache>> Open(const Path& directory, uint64_t bound);

  const Path& directory() const { return directory_; }

  // kNoSpace where the bound or the disk has no room, even without all that is not pinned.
  Result<Place> MakeRoom(uint64_t size);
  // The object was written whole and is right: from here on it is found. Where that fails it is not.
  Status Keep(Room& room, const std::string& key, const Digest& sha256);

  bool Has(const std::string& key) const;
  struct Found {
    File file;
    uint64_t size = 0;
    std::optional<Digest> checked;  // its digest, if it was checked since the start
  };
  // kNotFound where there is none. Counts as a use.
  Result<Found> Find(const std::string& key);
  void SetChecked(const std::string& key, const Digest& sha256);
  void Drop(const std::string& key);

  // These stay from here on, as far as they are within the bound, the first ones before the others; also those that are
  // not here yet. No others do.
  void Pin(const std::vector<std::string>& keys);

  Counts Look() const;

 private:
  struct Entry {
    uint64_t size = 0;
    uint64_t used = 0;  // rises
    std::optional<Digest> checked;
  };

  DiskCache(Path directory, uint64_t bound, FileLock lock)
      : directory_(std::move(directory)), bound_(bound), lock_(std::move(lock)) {}

  Path PathOf(const std::string& key) const { return directory_ / "objects" / key; }
  Status TakeOver();
  // All with mutex_ held.
  void Add(const std::string& key, Entry entry);
  void Remove(const std::string& key);
  // Removes the least recently used ones until that many bytes are free, or nothing else may go.
  void Evict(uint64_t bytes);
  uint64_t taken() const { return bytes_ + reserved_; }
  void GiveBack(Room& room);

  const Path directory_;
  const uint64_t bound_;
  const FileLock lock_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_, like all below
  std::map<uint64_t, std::string> by_use_;
  std::set<std::string> pinned_;
  uint64_t bytes_ = 0, reserved_ = 0, evicted_ = 0, next_use_ = 1, next_file_ = 1;
};

}  // namespace skerry

#endif  // SKERRY_RELAY_DISK_CACHE_H_
