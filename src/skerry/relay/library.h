// All that a relay has of a board, in memory, on its disk or on the way: each object is asked for once, whoever wants
// it.
#ifndef SKERRY_RELAY_LIBRARY_H_
#define SKERRY_RELAY_LIBRARY_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "skerry/http/handler_pool.h"
#include "skerry/relay/documents.h"
#include "skerry/relay/fetcher.h"

namespace skerry {

struct LibraryOptions {
  uint64_t memory = 512 << 20;  // bytes of objects that the disk has no room for
  int fetch_threads = 8;        // segments that come at once: 4 MiB of memory each
  int threads = 16;             // that look for objects
  size_t max_waiting = 1024;    // objects that wait for one of them
};

struct FoundObject {
  std::shared_ptr<Body> body;  // nullptr where only the size was asked for, and the bytes are not here
  uint64_t size = 0;
};

// Documents are fetched whole (documents.h); data is passed on while it comes (body.h), and its right bytes are those
// that a manifest or an anchor names, else those with the digits of the key.
class Library {
 public:
  using Found = std::function<void(Result<FoundObject>)>;
  // Bodies stay open so long after they were last asked for, those in memory (for which the disk has no room) too.
  static constexpr std::chrono::seconds kLinger{10};
  static constexpr size_t kMostOpen = 1024;

  Library(EventLoop& loop, Upstreams& upstreams, DiskCache& disk, RelayMetrics& metrics, const LibraryOptions& options);
  // Stop was called, and the loop is at rest or gone.
  ~Library();
  // Ends what is under way: what is asked for from here on is kUnavailable. Not on the loop.
  void Stop();

  // On the loop, for anything but a head. `found` is called there, at once or later, once. `size_only`: nothing is
  // fetched for it.
  void Find(const std::string& key, const BoardObject& object, bool size_only, Found found);

  Documents& documents() { return documents_; }
  // Runs, with their views, whose manifests were asked for within the last `time`.
  std::vector<RunId> AskedFor(std::chrono::seconds time) const;
  uint64_t memory_used() const { return memory_used_; }
  size_t coming() const { return coming_; }
  // Runs a task on one of the threads that look for objects; false: all are busy.
  bool Run(std::function<void()> task);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Open {
    std::shared_ptr<Body> body;
    Time used;
    Time expires = Time::max();
  };

  // On one of the threads.
  Result<FoundObject> Look(const std::string& key, const BoardObject& object, bool size_only, Time& expires);
  Result<FoundObject> LookForData(const std::string& key, const BoardObject& object, bool size_only);
  Result<std::shared_ptr<Body>> OnDisk(const std::string& key, const Expected& expected);
  Result<std::shared_ptr<Body>> Begin(const std::string& key, Expected expected, uint64_t size);
  Result<uint64_t> AskForSize(const std::string& key);
  // On the loop.
  void Tell(const std::string& key, bool size_only, const Result<FoundObject>& found, Time expires);
  void Sweep();

  EventLoop& loop_;
  Upstreams& upstreams_;
  DiskCache& disk_;
  RelayMetrics& metrics_;
  const LibraryOptions options_;
  Documents documents_;
  std::atomic<uint64_t> memory_used_ = 0;
  std::atomic<size_t> coming_ = 0;
  std::atomic<bool> stopping_ = false;

  // On the loop.
  std::unordered_map<std::string, Open> open_;
  std::map<std::pair<std::string, bool>, std::vector<Found>> pending_;

  mutable std::mutex mutex_;
  std::map<RunId, Time> asked_;  // guarded by mutex_

  std::unique_ptr<Fetcher> fetcher_;
  std::unique_ptr<HandlerPool> pool_;
  std::shared_ptr<void> sweeping_;
};

}  // namespace skerry

#endif  // SKERRY_RELAY_LIBRARY_H_
