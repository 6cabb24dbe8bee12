// Threads on which handlers of a server may block.
#ifndef SKERRY_HTTP_HANDLER_POOL_H_
#define SKERRY_HTTP_HANDLER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace skerry {

// Thread-safe. The destructor waits for the tasks that run; those that wait are dropped.
class HandlerPool {
 public:
  HandlerPool(int threads, size_t max_waiting) : limit_(max_waiting) {
    idle_ = threads;
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~HandlerPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      tasks_.clear();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  // False where `max_waiting` tasks wait for a thread already.
  [[nodiscard]] bool Add(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (stopping_ || tasks_.size() >= limit_ + static_cast<size_t>(idle_)) return false;
    tasks_.push_back(std::move(task));
    changed_.notify_one();
    return true;
  }

  // Tasks that no thread has begun.
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      --idle_;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      ++idle_;
    }
  }

  const size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, like all below
  int idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace skerry

#endif  // SKERRY_HTTP_HANDLER_POOL_H_
