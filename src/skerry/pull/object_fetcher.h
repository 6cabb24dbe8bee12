// Objects that are needed one after the other: the next ones come while one is used.
#ifndef SKERRY_PULL_OBJECT_FETCHER_H_
#define SKERRY_PULL_OBJECT_FETCHER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/pull/fetch.h"
#include "skerry/pull/object_cache.h"
#include "skerry/pull/part_file.h"

namespace skerry {

// How much may lie on the disk before anybody asked for it. An object is fetched ahead only while, beside what is taken
// and fetched, `spare_bytes` more stay free for others' work.
struct AheadLimits {
  uint64_t objects = 16;
  uint64_t bytes = 256 << 20;
  uint64_t spare_bytes = 0;
};

// An object on the disk, verified; in a cache it is in use until this is destroyed.
struct FetchedObject {
  Path path;
  uint64_t transferred = 0;
  PinnedFile pin;
};

// Fetches objects in the order in which they were given, on FetchOptions::parallel threads: each takes the next range
// of the first object that has one left, so an object that is needed sooner never waits for one that is needed later.
// Ranges are at most kMostRangeBytes, and all buffers together kMostBufferBytes (more than that many threads get
// kLeastRangeBytes each). Nothing comes ahead into a cache whose bound is less than all of the objects. With one
// thread, Take does the work. The methods belong to one thread; the destructor waits for the ranges that are under way,
// and leaves .part files for the next time.
class ObjectFetcher {
 public:
  static constexpr uint64_t kMostBufferBytes = 8 << 20;
  static constexpr uint64_t kMostRangeBytes = 4 << 20;
  static constexpr uint64_t kLeastRangeBytes = 512 << 10;
  static constexpr int kMostParallel = 64;

  struct Wanted {
    ObjectRef object;
    Path path;
  };

  // `cache`: the objects lie in it, at PathOf, and `path` of each is not looked at; null: none. Starts at once.
  ObjectFetcher(const Board& board, std::vector<Wanted> wanted, const FetchOptions& options, const AheadLimits& ahead,
                ObjectCache* cache);
  ~ObjectFetcher();
  ObjectFetcher(const ObjectFetcher&) = delete;
  ObjectFetcher& operator=(const ObjectFetcher&) = delete;

  // Waits for the object, telling `progress` how its bytes come. In rising order of `index`, each once.
  Result<FetchedObject> Take(size_t index, Progress& progress);

 private:
  struct Item;
  // A range of an item; an empty one: to open it.
  struct Job {
    Item* item;
    ByteRange range;
  };
  using Lock = std::unique_lock<std::mutex>;

  void Work();
  // What comes next, where there is anything to do. `only`: of this item alone.
  std::optional<Job> NextJob(const Item* only);
  bool MayOpen(size_t index) const;
  void Do(const Job& job, Bytes& buffer);
  Status Open(Item& item);
  Status Begin(const Item& item, PartFile& part) const;
  // Whether the right bytes are at the item's path already.
  Result<bool> IsThere(Item& item);
  Status Read(Item& item, const ByteRange& range, Bytes& buffer);
  Status Hash(Item& item, Bytes& buffer);
  Status Finish(Item& item);
  void Failed(Item& item, Error error);

  const Board& board_;
  FetchOptions options_;
  const AheadLimits ahead_;
  uint64_t all_bytes_ = 0;  // of all items
  ObjectCache* const cache_;
  int parallel_ = 1;  // threads that read, the caller's where it is one
  uint64_t range_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Item>> items_;  // their members are guarded by mutex_, but see Item
  size_t wanted_ = 1;      // items before this one were asked for, the first one by being given; guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace skerry

#endif  // SKERRY_PULL_OBJECT_FETCHER_H_
