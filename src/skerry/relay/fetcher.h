// Brings objects of any size from the upstreams, in segments of which several come at once.
#ifndef SKERRY_RELAY_FETCHER_H_
#define SKERRY_RELAY_FETCHER_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "skerry/base/clock.h"
#include "skerry/relay/body.h"
#include "skerry/relay/upstreams.h"

namespace skerry {

// What is known about the bytes of an object before they come.
struct Expected {
  std::optional<Digest> sha256;  // from a manifest or an anchor
  std::string digits;            // the first ones of its SHA-256, from its key; empty where sha256 is known
  // What is wrong with bytes of this digest, or "".
  std::string FlawOf(const Digest& found) const;
};

// Thread-safe. The destructor ends what is under way.
class Fetcher {
 public:
  // An upstream that gave wrong bytes for an object is not asked for it again for so long. Where several gave parts of
  // what was wrong, the next attempts within this time are each by one alone: then it is certain which of them it is.
  static constexpr std::chrono::seconds kDistrust{5};

  struct Order {
    std::string key;
    Expected expected;
    std::shared_ptr<Body> body;
    // Called once, on one of the fetcher's threads, before the body's state changes: with the digest of what is right,
    // or nullopt.
    std::function<void(const std::optional<Digest>&)> done;
  };

  Fetcher(Upstreams& upstreams, RelayMetrics& metrics, int threads);
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  // Fills the body and settles it. Objects that are ordered at the same time take turns, so that no reader waits for
  // its first byte until others have all of theirs; of one, what a reader waits for comes first.
  void Begin(Order order);
  // Ends everything: bodies that are coming fail.
  void Stop();

 private:
  static constexpr size_t kMixture = SIZE_MAX;

  struct Job {
    Order order;
    std::vector<size_t> upstreams;  // to be asked, in this order
    Stopwatch watch;
    std::set<uint64_t> to_fetch;  // segments that nobody has begun; guarded by the fetcher's mutex
    std::mutex mutex;
    uint64_t left = 0;              // segments; guarded by mutex, like all below
    std::set<size_t> contributors;  // upstreams that gave bytes
    std::optional<Error> failure;
  };
  struct Task {
    std::shared_ptr<Job> job;
    uint64_t segment = 0;
  };

  void Work();
  // The next one to be fetched. mutex_ is held.
  Task NextTask();
  void FetchSegment(const Task& task, Bytes& buffer);
  Status Read(Job& job, uint64_t segment, size_t upstream, Bytes& buffer);
  void EndSegment(const std::shared_ptr<Job>& job, std::optional<Error> failure);
  void Settle(Job& job);
  std::vector<size_t> Trusted(const std::string& key);
  void Distrust(const std::string& key, size_t upstream);

  Upstreams& upstreams_;
  RelayMetrics& metrics_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  // with something to_fetch; guarded by mutex_, like all below
  // Until when an upstream (or kMixture) is distrusted about a key.
  std::map<std::pair<std::string, size_t>, std::chrono::steady_clock::time_point> distrusted_;
  std::vector<std::thread> threads_;
};

}  // namespace skerry

#endif  // SKERRY_RELAY_FETCHER_H_
