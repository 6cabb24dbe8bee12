#include "skerry/agent/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace skerry {
namespace {

constexpr int kLowestPriority = 19;
// Shorter pauses are saved up, since each costs a wake-up.
constexpr std::chrono::milliseconds kShortestPause{2};

}  // namespace

void LowerPriority() {
  // On Linux a priority belongs to a thread. That it may not be lowered is no reason not to do the work.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowestPriority);
}

void RunInBackground(const std::function<void()>& work) {
  std::thread thread([&] {
    LowerPriority();
    work();
  });
  thread.join();
}

PacedProgress::PacedProgress(uint64_t bytes_per_second, Now now, Sleep sleep)
    : bytes_per_second_(bytes_per_second),
      now_(now ? std::move(now) : [] { return std::chrono::steady_clock::now(); }),
      sleep_(sleep ? std::move(sleep) : [](std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }) {}

void PacedProgress::Begin(std::string_view stage, uint64_t /*total*/) {
  const std::lock_guard lock(mutex_);
  paced_ = bytes_per_second_ > 0 && stage != "fetch";
}

void PacedProgress::Advance(uint64_t bytes) {
  std::chrono::nanoseconds pause{0};
  {
    const std::lock_guard lock(mutex_);
    if (!paced_) return;
    const auto now = now_();
    // Time that was not used is not saved up.
    next_ = std::max(next_, now) + std::chrono::nanoseconds(static_cast<int64_t>(
                                       static_cast<double>(bytes) / static_cast<double>(bytes_per_second_) * 1e9));
    pause = next_ - now;
  }
  if (pause >= kShortestPause) sleep_(pause);
}

}  // namespace skerry
