#include "skerry/agent/background.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

namespace skerry {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A clock that moves only while somebody sleeps or works.
struct FakeTime {
  std::chrono::steady_clock::time_point now{milliseconds(1'000'000)};
  nanoseconds slept{0};

  PacedProgress Paced(uint64_t rate) {
    return PacedProgress(
        rate, [this] { return now; },
        [this](nanoseconds time) {
          now += time;
          slept += time;
        });
  }
};

TEST(PacedProgress, HoldsTheRateOverAllSizesOfSteps) {
  FakeTime time;
  PacedProgress progress = time.Paced(100'000'000);
  progress.Begin("decode", 50'000'000);
  const auto begun = time.now;
  for (int i = 0; i < 500; ++i) progress.Advance(i % 2 == 0 ? 1'000 : 199'000);
  // 50 MB at 100 MB/s; what is saved up at the end is less than the shortest pause.
  EXPECT_NEAR(std::chrono::duration<double>(time.now - begun).count(), 0.5, 0.003);
}

TEST(PacedProgress, DoesNotSaveUpTimeThatWasNotUsed) {
  FakeTime time;
  PacedProgress progress = time.Paced(1'000'000);
  progress.Begin("decode", 0);
  progress.Advance(10'000);
  time.now += std::chrono::seconds(100);
  const nanoseconds before = time.slept;
  progress.Advance(1'000'000);
  EXPECT_NEAR(std::chrono::duration<double>(time.slept - before).count(), 1.0, 0.001);
}

TEST(PacedProgress, LetsTheNetworkAndAnUnlimitedRateThrough) {
  FakeTime time;
  PacedProgress limited = time.Paced(1);
  limited.Begin("fetch", 0);
  limited.Advance(1'000'000);
  PacedProgress unlimited = time.Paced(0);
  unlimited.Begin("decode", 0);
  unlimited.Advance(1'000'000);
  EXPECT_EQ(time.slept, nanoseconds(0));
}

TEST(RunInBackground, GivesItsThreadsTheLowestPriorityAndLeavesTheCallersAlone) {
  const int before = getpriority(PRIO_PROCESS, 0);
  int during = 0, below = 0;
  RunInBackground([&] {
    during = getpriority(PRIO_PROCESS, 0);
    std::thread([&] { below = getpriority(PRIO_PROCESS, 0); }).join();
  });
  EXPECT_EQ(during, 19);
  EXPECT_EQ(below, 19);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

}  // namespace
}  // namespace skerry
