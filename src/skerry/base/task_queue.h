// Work that goes on beside the caller's, in order.
#ifndef SKERRY_BASE_TASK_QUEUE_H_
#define SKERRY_BASE_TASK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "skerry/base/interrupt.h"
#include "skerry/base/result.h"

namespace skerry {

// Runs tasks on `threads` threads of its own, begun in the order in which they were added. After the first error no
// other task begins. A task can be interrupted where the thread that made the queue can.
class TaskQueue {
 public:
  // Add() waits while `limit` tasks have not begun, which bounds what they hold.
  explicit TaskQueue(int threads = 1, size_t limit = 2) : limit_(limit) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, flag = Interruptible::Current()] { Work(flag); });
  }
  ~TaskQueue() {
    Stop();
    for (std::thread& thread : threads_) thread.join();
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // The first error of a task that was added before, or ok.
  Status Add(std::function<Status()> task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() < limit_ || !failure_; });
    if (!failure_) return failure_;
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return {};
  }

  // Waits until all is done.
  Status Finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (tasks_.empty() && running_ == 0) || (!failure_ && running_ == 0); });
    return failure_;
  }

 private:
  void Stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    changed_.notify_all();
  }

  void Work(const std::atomic<bool>* flag) {
    const Interruptible inherited(flag);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || (!tasks_.empty() && failure_); });
      if (stopping_) return;
      const std::function<Status()> task = std::move(tasks_.front());
      tasks_.pop_front();
      ++running_;
      changed_.notify_all();
      lock.unlock();
      Status done = task();
      lock.lock();
      --running_;
      if (!done && failure_) failure_ = std::move(done);
      changed_.notify_all();
    }
  }

  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> tasks_;  // guarded by mutex_, like all below
  int running_ = 0;
  bool stopping_ = false;
  Status failure_;
  std::vector<std::thread> threads_;
};

}  // namespace skerry

#endif  // SKERRY_BASE_TASK_QUEUE_H_
