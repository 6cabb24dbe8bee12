#include "skerry/base/retry.h"

#include <algorithm>
#include <random>

#include "skerry/base/interrupt.h"

namespace skerry {

Waiting Waiting::Real() {
  return {.sleep = [](std::chrono::milliseconds time) { SleepInterruptibly(time); },
          .random =
              [] {
                thread_local std::mt19937_64 generator{std::random_device{}()};
                return std::uniform_real_distribution<double>(0, 1)(generator);
              }};
}

bool RetryBudget::TakeRetry() {
  const std::lock_guard lock(mutex_);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

void RetryBudget::NoteSuccess() {
  const std::lock_guard lock(mutex_);
  tokens_ = std::min(capacity_, tokens_ + kTokensOfASuccess);
}

double RetryBudget::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

bool Backoff::WaitBeforeRetry(std::optional<std::chrono::milliseconds> asked) {
  using std::chrono::milliseconds;
  if (attempts_ >= policy_.max_attempts || !budget_.TakeRetry()) return false;
  const int doublings = std::min(attempts_ - 1, 30);
  const auto bound = std::min<int64_t>(policy_.cap.count(), policy_.base.count() << doublings);
  milliseconds delay(static_cast<int64_t>(static_cast<double>(bound) * waiting_.random()));
  if (asked) delay = std::max(delay, std::clamp(*asked, milliseconds(0), policy_.longest_asked_pause));
  ++attempts_;
  waiting_.sleep(delay);
  return true;
}

}  // namespace skerry
