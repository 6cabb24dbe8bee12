#include "skerry/base/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace skerry {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

// Keeps the delays instead of waiting; the dice always show `dice`.
struct FakeWaiting {
  std::vector<int64_t> slept;
  double dice = 0.5;
  Waiting Get() {
    return {.sleep = [this](milliseconds time) { slept.push_back(time.count()); }, .random = [this] { return dice; }};
  }
};

TEST(Backoff, DoublesTheBoundUpToTheCapAndStopsAtTheLastAttempt) {
  FakeWaiting waiting;
  RetryBudget budget;
  Backoff backoff({.max_attempts = 6, .base = milliseconds(100), .cap = milliseconds(1000)}, budget, waiting.Get());
  int retries = 0;
  while (backoff.WaitBeforeRetry()) ++retries;
  EXPECT_EQ(retries, 5);
  EXPECT_EQ(backoff.attempts(), 6);
  EXPECT_THAT(waiting.slept, ElementsAre(50, 100, 200, 400, 500));
}

TEST(Backoff, SpreadsDelaysFromZeroToTheBound) {
  FakeWaiting waiting;
  RetryBudget budget;
  waiting.dice = 0;
  EXPECT_TRUE(Backoff({.base = milliseconds(100)}, budget, waiting.Get()).WaitBeforeRetry());
  waiting.dice = 0.999;
  EXPECT_TRUE(Backoff({.base = milliseconds(100)}, budget, waiting.Get()).WaitBeforeRetry());
  EXPECT_THAT(waiting.slept, ElementsAre(0, 99));
}

TEST(Backoff, WaitsAsLongAsTheServerAsksButNotForEver) {
  FakeWaiting waiting;
  RetryBudget budget;
  Backoff backoff({.base = milliseconds(100), .longest_asked_pause = milliseconds(5000)}, budget, waiting.Get());
  EXPECT_TRUE(backoff.WaitBeforeRetry(milliseconds(2000)));
  EXPECT_TRUE(backoff.WaitBeforeRetry(milliseconds(86'400'000)));
  EXPECT_TRUE(backoff.WaitBeforeRetry(milliseconds(-1)));
  EXPECT_THAT(waiting.slept, ElementsAre(2000, 5000, 200));
}

TEST(RetryBudget, BoundsTheRetriesOfAllOperationsTogether) {
  FakeWaiting waiting;
  RetryBudget budget(10);
  int retries = 0;
  for (int operation = 0; operation < 1000; ++operation) {
    Backoff backoff({.max_attempts = 8}, budget, waiting.Get());
    while (backoff.WaitBeforeRetry()) ++retries;
  }
  EXPECT_EQ(retries, 10);
}

TEST(RetryBudget, RecoversWithSuccessesUpToItsCapacity) {
  RetryBudget budget(2);
  EXPECT_TRUE(budget.TakeRetry());
  EXPECT_TRUE(budget.TakeRetry());
  EXPECT_FALSE(budget.TakeRetry());
  for (int i = 0; i < 6; ++i) budget.NoteSuccess();
  EXPECT_TRUE(budget.TakeRetry());
  EXPECT_FALSE(budget.TakeRetry());
  for (int i = 0; i < 1000; ++i) budget.NoteSuccess();
  EXPECT_DOUBLE_EQ(budget.tokens(), 2);
}

TEST(RetryBudget, IsSharedByThreads) {
  RetryBudget budget(100);
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) taken += budget.TakeRetry() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 100);
}

TEST(Waiting, TheRealDiceLieBetweenZeroAndOne) {
  const Waiting waiting = Waiting::Real();
  for (int i = 0; i < 1000; ++i) {
    const double value = waiting.random();
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

}  // namespace
}  // namespace skerry
