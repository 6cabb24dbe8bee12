#include "skerry/base/interrupt.h"

#include <thread>

#include "skerry/base/parallel.h"
#include "skerry/base/retry.h"
#include "skerry/base/task_queue.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

TEST(Interrupt, IsThatOfTheThreadForAsLongAsTheScopeLives) {
  std::atomic<bool> outer = false, inner = true;
  EXPECT_THAT(CheckInterrupt(), Succeeds());
  {
    const Interruptible scope(&outer);
    EXPECT_THAT(CheckInterrupt(), Succeeds());
    {
      const Interruptible nested(&inner);
      EXPECT_THAT(CheckInterrupt(), Fails(Code::kInterrupted));
      const Interruptible never(nullptr);
      EXPECT_THAT(CheckInterrupt(), Succeeds());
    }
    EXPECT_FALSE(Interrupted());
    outer = true;
    EXPECT_TRUE(Interrupted());
    std::thread([] { EXPECT_FALSE(Interrupted()) << "another thread is not meant"; }).join();
  }
  EXPECT_FALSE(Interrupted());
}

TEST(Interrupt, EndsParallelWorkOnEveryThread) {
  for (const int threads : {1, 4}) {
    std::atomic<bool> stop = false;
    const Interruptible scope(&stop);
    std::atomic<int> made = 0;
    const Status status = ParallelFor(1'000'000, threads, [&](size_t) -> Status {
      if (++made == 100) stop = true;
      return {};
    });
    EXPECT_THAT(status, Fails(Code::kInterrupted));
    EXPECT_LE(made, 100 + 2 * threads);
  }
}

TEST(Interrupt, ReachesTheTasksOfAQueue) {
  std::atomic<bool> stop = false;
  const Interruptible scope(&stop);
  TaskQueue queue(2);
  stop = true;
  Must(queue.Add([] { return CheckInterrupt(); }));
  EXPECT_THAT(queue.Finish(), Fails(Code::kInterrupted));
}

TEST(Interrupt, EndsASleepBetweenTries) {
  std::atomic<bool> stop = false;
  const Interruptible scope(&stop);
  std::thread other([&] { stop = true; });
  Waiting::Real().sleep(std::chrono::hours(24));
  other.join();
  EXPECT_TRUE(Interrupted());
}

TEST(Interrupt, EndsACopyBeforeItsFirstByte) {
  const TempDir directory;
  Must(WriteFileAtomically(directory / "from", AsBytes("content")));
  std::atomic<bool> stop = true;
  const Interruptible scope(&stop);
  EXPECT_THAT(CopyFile(directory / "from", directory / "to"), Fails(Code::kInterrupted));
}

}  // namespace
}  // namespace skerry
