#include "skerry/agent/scrub_loop.h"

#include "skerry/agent/background.h"
#include "skerry/apply/scrub.h"

namespace skerry {

namespace {
constexpr std::chrono::milliseconds kStep{200};
}

ScrubLoop::ScrubLoop(const StateDirectory& state, uint64_t bytes_per_second, Reconciler& reconciler,
                     SharedStatus& status, AgentMetrics& metrics)
    : reconciler_(reconciler), status_(status), metrics_(metrics) {
  thread_ = std::thread([this, state, bytes_per_second] { Work(state, bytes_per_second); });
}

ScrubLoop::~ScrubLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void ScrubLoop::Work(StateDirectory state, uint64_t bytes_per_second) {
  LowerPriority();
  Scrubber scrubber(state.Checkpoint(), DefaultStateDirectory(state.Checkpoint()));
  ScrubPace pace(bytes_per_second);
  std::shared_ptr<const VersionSideFiles> expected;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kStep, [&] { return stop_; })) {
    if (reconciler_.damaged()) continue;  // what is known is being mended
    lock.unlock();
    if (auto told = reconciler_.SideFiles(); told != expected) {
      expected = std::move(told);
      if (expected->files) scrubber.ExpectSideFiles(expected->label, *expected->files);
    }
    const auto step = scrubber.ScrubSome(pace.Due(std::chrono::steady_clock::now()));
    if (step) {
      metrics_.Scrubbed(step->bytes);
      if (step->round_done) metrics_.ScrubPassed(Clock::System().Now());
    } else if (step.error().code == Code::kCorrupt) {
      metrics_.ScrubMismatch();
      reconciler_.NoteDamage(step.error());
    }
    status_.Change([&](AgentStatus& now) {
      now.scrub.rounds = scrubber.rounds();
      if (step) now.scrub.bytes += step->bytes;
      if (!step && step.error().code == Code::kCorrupt) ++now.scrub.mismatches;
    });
    lock.lock();
  }
}

}  // namespace skerry
