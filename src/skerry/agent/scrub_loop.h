// Re-reading the canonical checkpoint in the background, at a set rate.
#ifndef SKERRY_AGENT_SCRUB_LOOP_H_
#define SKERRY_AGENT_SCRUB_LOOP_H_

#include <condition_variable>
#include <mutex>
#include <thread>

#include "skerry/agent/agent_status.h"
#include "skerry/agent/reconciler.h"
#include "skerry/metrics/agent_metrics.h"

namespace skerry {

// Scrubs on a thread of its own until it is destroyed. A damaged tensor or file is told to the reconciler, which builds
// the checkpoint anew. Side files are compared with the version's manifest once a pass has read that from the board;
// until then, and where it can't be had, with what they were when the scrubber saw the version first.
class ScrubLoop {
 public:
  // All must outlive it. `bytes_per_second` is not 0.
  ScrubLoop(const StateDirectory& state, uint64_t bytes_per_second, Reconciler& reconciler, SharedStatus& status,
            AgentMetrics& metrics);
  ~ScrubLoop();

 private:
  void Work(StateDirectory state, uint64_t bytes_per_second);

  Reconciler& reconciler_;
  SharedStatus& status_;
  AgentMetrics& metrics_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace skerry

#endif  // SKERRY_AGENT_SCRUB_LOOP_H_
