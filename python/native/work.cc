#include "work.h"

#include <algorithm>
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

// How far the work is: told by its threads, asked by the one that waits.
class Account : public skerry::Progress {
 public:
  void Begin(std::string_view stage, uint64_t total) override {
    const std::lock_guard lock(mutex_);
    stage_ = stage;
    done_ = 0;
    total_ = total;
    moved_ = true;
  }
  void Advance(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    moved_ = true;
  }

  // Calls report(stage, done, total) if something has moved since the last call.
  void Tell(const nb::object& report) {
    std::string stage;
    uint64_t done = 0, total = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(moved_, false)) return;
      stage = stage_;
      done = done_;
      total = total_;
    }
    report(stage.c_str(), done, total);
  }

 private:
  std::mutex mutex_;
  std::string stage_;  // guarded by mutex_, like all below
  uint64_t done_ = 0, total_ = 0;
  bool moved_ = false;
};

}  // namespace

void RunApart(const nb::object& report, const std::function<void(skerry::Progress&)>& work) {
  Account account;
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;  // guarded by mutex
  std::exception_ptr thrown;
  std::thread thread([&] {
    const skerry::Interruptible scope(&stop);
    try {
      work(account);
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    over = true;
    ended.notify_one();
  });

  std::exception_ptr interruption;
  while (true) {
    {
      const nb::gil_scoped_release unlocked;
      std::unique_lock lock(mutex);
      if (ended.wait_for(lock, kLook, [&] { return over; })) break;
    }
    if (interruption) continue;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!report.is_none()) account.Tell(report);
    } catch (...) {
      interruption = std::current_exception();
      stop = true;
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
