#include "skerry/agent/head_watch.h"

#include <utility>

#include "skerry/base/interrupt.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

// No head has it: the answer comes at once.
const char* const kNoTag = "\"\"";

}  // namespace

HeadWatch::HeadWatch(Reconciler::OpenBoard open_board, Reconciler& reconciler)
    : open_board_(std::move(open_board)), reconciler_(reconciler), thread_([this] { Run(); }) {}

HeadWatch::~HeadWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void HeadWatch::Run() {
  const Interruptible interruptible(&stop_);
  while (!stop_) {
    const std::chrono::seconds pause = Wait();
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, pause, [&] { return stop_.load(); });
  }
}

std::chrono::seconds HeadWatch::Wait() {
  if (!board_) {
    auto board = open_board_();
    if (!board) return kAfterAFailure;
    board_ = *std::move(board);
  }
  const auto policy = reconciler_.CurrentPolicy();
  if (!policy) return kAfterAFailure;
  if (policy->run.Whole() != run_) last_.reset();
  run_ = policy->run.Whole();
  const Generation last = last_.value_or(Generation(kNoTag));
  auto changed = board_->store().WaitForChange(HeadKey(run_), last, kMaxHeadBytes, kLongestWait);
  if (!changed) return changed.error().code == Code::kUnsupported ? kAskAgain : kAfterAFailure;
  if (!*changed) return {};
  // The first one says only what the loop has seen by itself.
  if (last_) reconciler_.Wake();
  last_ = (*changed)->generation;
  return {};
}

}  // namespace skerry
