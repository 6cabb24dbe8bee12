// Trying again after failures that may pass: exponential backoff with full jitter (a uniformly random delay between 0
// and a bound that doubles; AWS Architecture Blog, "Exponential Backoff And Jitter"), and a budget that all operations
// of one client share, so that an outage makes fewer requests and not more.
#ifndef SKERRY_BASE_RETRY_H_
#define SKERRY_BASE_RETRY_H_

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

namespace skerry {

struct RetryPolicy {
  int max_attempts = 8;  // the first one included
  std::chrono::milliseconds base{100};
  std::chrono::milliseconds cap{10'000};
  // A server that asks for a longer pause (Retry-After) gets this one.
  std::chrono::milliseconds longest_asked_pause{30'000};
};

// How to wait, so that tests neither sleep nor throw dice. Both are called from several threads at once.
struct Waiting {
  std::function<void(std::chrono::milliseconds)> sleep;
  std::function<double()> random;  // uniform in [0, 1)

  static Waiting Real();
};

// A token bucket without a clock: each retry takes a token, each success gives a part of one back. While everything
// fails there are at most `capacity` retries in all, whatever the number of operations and threads. Thread-safe.
class RetryBudget {
 public:
  static constexpr double kCapacity = 100;
  static constexpr double kTokensOfASuccess = 0.2;

  explicit RetryBudget(double capacity = kCapacity) : capacity_(capacity), tokens_(capacity) {}

  bool TakeRetry();
  void NoteSuccess();
  double tokens() const;

 private:
  mutable std::mutex mutex_;
  const double capacity_;
  double tokens_;  // guarded by mutex_
};

// The attempts of one operation. Not thread-safe; the budget must outlive it.
//
//   Backoff backoff(policy, budget, waiting);
//   while (true) {
//     if (Try()) { backoff.Succeeded(); return ...; }
//     if (!backoff.WaitBeforeRetry()) return failure;
//   }
class Backoff {
 public:
  Backoff(const RetryPolicy& policy, RetryBudget& budget, const Waiting& waiting)
      : policy_(policy), budget_(budget), waiting_(waiting) {}

  // Waits (at least as long as the server asked for, within the policy's limit) and returns true, or false at once when
  // the attempts or the budget are used up.
  bool WaitBeforeRetry(std::optional<std::chrono::milliseconds> asked = std::nullopt);
  void Succeeded() { budget_.NoteSuccess(); }
  // Attempts so far, the running one included.
  int attempts() const { return attempts_; }

 private:
  const RetryPolicy policy_;
  RetryBudget& budget_;
  const Waiting waiting_;
  int attempts_ = 1;
};

}  // namespace skerry

#endif  // SKERRY_BASE_RETRY_H_
