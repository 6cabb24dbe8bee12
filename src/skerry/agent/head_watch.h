// Hears of a new version where the board can tell of it by itself, so that nobody waits for the next poll.
#ifndef SKERRY_AGENT_HEAD_WATCH_H_
#define SKERRY_AGENT_HEAD_WATCH_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "skerry/agent/reconciler.h"

namespace skerry {

// A thread that waits for the head of the followed run to move (Store::WaitForChange) and wakes the loop. A hint: what
// is true is what the loop reads. A board that can't tell is asked about that again every kAskAgain.
class HeadWatch {
 public:
  static constexpr std::chrono::seconds kLongestWait{20}, kAskAgain{60}, kAfterAFailure{1};

  HeadWatch(Reconciler::OpenBoard open_board, Reconciler& reconciler);
  // Ends a wait that is under way.
  ~HeadWatch();
  HeadWatch(const HeadWatch&) = delete;
  HeadWatch& operator=(const HeadWatch&) = delete;

 private:
  void Run();
  // One wait: how long to pause after it.
  std::chrono::seconds Wait();

  const Reconciler::OpenBoard open_board_;
  Reconciler& reconciler_;
  std::optional<Board> board_;
  RunId run_;
  std::optional<Generation> last_;  // of run_'s head

  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::thread thread_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_HEAD_WATCH_H_
