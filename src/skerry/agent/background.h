// Work that must not be felt by the engines on the same host.
#ifndef SKERRY_AGENT_BACKGROUND_H_
#define SKERRY_AGENT_BACKGROUND_H_

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "skerry/base/progress.h"

namespace skerry {

// Gives the calling thread, and the threads that it starts, the lowest priority (nice 19).
void LowerPriority();

// Runs `work` to its end on a thread of the lowest priority (nice 19), which threads that it starts inherit: it takes
// the processor time that the engines leave. The caller waits.
void RunInBackground(const std::function<void()>& work);

// Holds all stages but "fetch" (which the network paces) to `bytes_per_second` of the model by sleeping in Advance; 0:
// no limit. Thread-safe, as Progress says: all threads together keep the rate.
class PacedProgress : public Progress {
 public:
  using Sleep = std::function<void(std::chrono::nanoseconds)>;
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  // Tests own the time: `sleep` and `now` are the real ones where they are empty.
  explicit PacedProgress(uint64_t bytes_per_second, Now now = {}, Sleep sleep = {});

  void Begin(std::string_view stage, uint64_t total) override;
  void Advance(uint64_t bytes) override;

 private:
  const uint64_t bytes_per_second_;
  const Now now_;
  const Sleep sleep_;
  std::mutex mutex_;
  bool paced_ = false;                            // guarded by mutex_
  std::chrono::steady_clock::time_point next_{};  // when the next byte may pass; guarded by mutex_
};

}  // namespace skerry

#endif  // SKERRY_AGENT_BACKGROUND_H_
