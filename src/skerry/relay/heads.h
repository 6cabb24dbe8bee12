// The heads of runs: what each is now, and who waits for it to move.
#ifndef SKERRY_RELAY_HEADS_H_
#define SKERRY_RELAY_HEADS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/board/head.h"
#include "skerry/relay/upstreams.h"

namespace skerry {

struct HeadsOptions {
  Path directory;                            // where heads outlive a restart
  std::chrono::milliseconds fresh{1'000};    // a head that an upstream told not longer ago is given without asking
  std::chrono::seconds followed_for{600};    // after it was last asked for
  std::function<void(const Head&)> on_move;  // called on a thread of Heads, before anybody else hears of it
};

// A head as it was last told.
struct RelayedHead {
  Bytes bytes;
  std::string tag;  // entity tag: its SHA-256, with quotes
  Head head;
  size_t upstream = 0;    // that told it; of one from an earlier start kNone
  Generation generation;  // there
  std::chrono::steady_clock::time_point asked, told;
  static constexpr size_t kNone = SIZE_MAX;
};
using SharedHead = std::shared_ptr<const RelayedHead>;

// Follows each run that is asked for, by a thread: waits for the head to move where the upstream can tell that by
// itself (Store::WaitForChange), looks at the file 40 times a second where it is one on this host, and asks every
// `fresh` elsewhere. A head is taken only when it is well-formed and of its run, and one that is behind the one that is
// here only from the upstream that told that: others lag. While no upstream answers the last good one is given.
// Thread-safe.
class Heads {
 public:
  using Told = std::function<void(Result<SharedHead>)>;
  static constexpr size_t kMostRuns = 256;
  static constexpr std::chrono::milliseconds kLookAtFiles{25};
  static constexpr std::chrono::seconds kLongestWait{20};  // of one request to an upstream
  static constexpr std::chrono::seconds kAskOnly{60};      // of one that does not tell by itself

  Heads(Upstreams& upstreams, RelayMetrics& metrics, HeadsOptions options);
  ~Heads();
  // Ends the threads; who waits is told what there is.
  void Stop();

  // The head, asked for where what is here is not fresh. Blocks.
  Result<SharedHead> Get(const RunId& run);
  // What is here and fresh; nullptr: Get has to be called.
  SharedHead IfFresh(const RunId& run);
  // `changed` is called once on some thread when the head has another tag than this; false where that is so already.
  // Drop the handle to wait no more.
  std::shared_ptr<void> OnChange(const RunId& run, const std::string& tag, std::function<void(SharedHead)> changed);

  // Something has happened: looks at all followed heads at once.
  void Wake();

  struct View {
    RunId run;
    SharedHead head;
    size_t waiting = 0;
    bool pushed = false;  // the upstream tells by itself
  };
  std::vector<View> Look() const;
  size_t waiting() const { return waiting_count_; }

 private:
  struct Waiter {
    std::string tag;
    std::function<void(SharedHead)> changed;
  };
  struct Run {
    SharedHead head;
    std::chrono::steady_clock::time_point asked;
    bool pushed = false;   // an upstream was asked to tell when it moves, and has not answered
    bool failing = false;  // no upstream answered the last time
    bool follows = false;  // the thread runs
    // Until when the upstream is only asked, since it does not tell by itself; of the thread alone.
    std::chrono::steady_clock::time_point ask_only_until;
    std::map<uint64_t, Waiter> waiters;
    std::thread follower;
    std::mutex asking;  // one request at a time; taken before mutex_
  };

  // nullptr: the run has not been seen. mutex_ is held.
  Run* Seen(const RunId& run) const;
  static bool IsFresh(const Run& state, std::chrono::milliseconds fresh);
  void StartFollowing(const RunId& run, Run& state);
  void Follow(const RunId& run, Run& state);
  // One round: how long to pause after it.
  std::chrono::milliseconds FollowOnce(const RunId& run, Run& state);
  // Looks at the file until it is another or `fresh` has passed.
  void WatchFile(const Path& path);
  // Until the time has passed or somebody wakes.
  void Pause(std::chrono::milliseconds time);
  Result<SharedHead> Ask(const RunId& run, const SharedHead& old);
  // Reads what an upstream told. kCorrupt where it is no head of the run, kUnavailable where it lags.
  Result<SharedHead> Take(const RunId& run, const SharedHead& old, size_t upstream,
                          std::chrono::steady_clock::time_point asked, Object told) const;
  // But for one that was asked for before the one that is here was told, and is behind it.
  void Set(Run& state, SharedHead head);
  void ReadKept();
  Path PathOf(const RunId& run) const { return options_.directory / run.str(); }

  Upstreams& upstreams_;
  RelayMetrics& metrics_;
  const HeadsOptions options_;
  std::atomic<bool> stopping_ = false;
  std::atomic<size_t> waiting_count_ = 0;
  std::mutex first_;  // one request at a time for runs that were not seen before
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  uint64_t wakes_ = 0;  // guarded by mutex_, like all below
  uint64_t next_waiter_ = 1;
  std::map<RunId, std::unique_ptr<Run>> runs_;  // nothing is erased
};

}  // namespace skerry

#endif  // SKERRY_RELAY_HEADS_H_
