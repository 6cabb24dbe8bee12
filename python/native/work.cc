#include "work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "skerry/base/interrupt.h"
#include "skerry/base/parallel.h"

namespace nb = nanobind;

namespace {

constexpr std::chrono::milliseconds kLook{50};
constexpr int64_t kMostThreads = 1024;

// What the thread that works tells the one that waits for it.
class Account : public skerry::Progress {
 public:
  explicit Account(bool reported) : reported_(reported) {}

  // Where somebody wants to know, it returns when that is told, or the work is to end.
  void Begin(std::string_view stage, uint64_t total) override {
    std::unique_lock lock(mutex_);
    stage_ = stage;
    done_ = 0;
    total_ = total;
    moved_ = true;
    if (!reported_) return;
    begun_ = true;
    news_.notify_all();
    told_.wait(lock, [&] { return !begun_ || stop_; });
  }
  void Advance(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    moved_ = true;
  }
  // The work is over.
  void End() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    news_.notify_all();
  }

  // Waits for a moment. Returns whether the work is over.
  bool Wait() {
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, kLook, [&] { return over_ || begun_; });
    return over_;
  }
  // Calls report(stage, done, total) if something has moved since the last call.
  void Tell(const nb::object& report) {
    std::unique_lock lock(mutex_);
    if (!std::exchange(moved_, false)) return;
    const std::string stage = stage_;
    const uint64_t done = done_, total = total_;
    lock.unlock();
    report(stage.c_str(), done, total);
    lock.lock();
    begun_ = false;
    told_.notify_all();
  }
  // The work is to end.
  void Stop() {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    begun_ = false;
    told_.notify_all();
  }
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  const bool reported_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable news_, told_;
  std::string stage_;  // guarded by mutex_, like all below
  uint64_t done_ = 0, total_ = 0;
  bool moved_ = false;  // since it was told last
  bool begun_ = false;  // a stage of which nothing was told yet
  bool over_ = false;
};

}  // namespace

void RunApart(const nb::object& report, const std::function<void(skerry::Progress&)>& work) {
  Account account(!report.is_none());
  std::exception_ptr thrown;
  std::thread thread([&] {
    const skerry::Interruptible scope(&account.stop());
    try {
      work(account);
    } catch (...) {
      thrown = std::current_exception();
    }
    account.End();
  });

  std::exception_ptr interruption;
  while (!Unlocked([&] { return account.Wait(); })) {
    if (interruption) continue;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!report.is_none()) account.Tell(report);
    } catch (...) {
      interruption = std::current_exception();
      account.Stop();
    }
  }
  thread.join();
  if (interruption) std::rethrow_exception(interruption);
  if (thrown) std::rethrow_exception(thrown);
  if (!report.is_none()) account.Tell(report);
}

int ThreadsOf(int64_t threads) {
  if (threads < 0) {
    Raise({skerry::Code::kInvalid,
           fmt::format("threads: {}, but 0 (all cores) or a number of threads is wanted", threads)});
  }
  return threads == 0 ? skerry::DefaultThreads() : static_cast<int>(std::min(threads, kMostThreads));
}
