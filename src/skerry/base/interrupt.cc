#include "skerry/base/interrupt.h"

#include <algorithm>
#include <thread>

namespace skerry {
namespace {

constexpr std::chrono::milliseconds kLook{50};

thread_local const std::atomic<bool>* current = nullptr;

}  // namespace

Interruptible::Interruptible(const std::atomic<bool>* flag) : outer_(current) { current = flag; }

Interruptible::~Interruptible() { current = outer_; }

const std::atomic<bool>* Interruptible::Current() { return current; }

bool Interrupted() { return current != nullptr && current->load(std::memory_order_relaxed); }

Status CheckInterrupt() {
  if (Interrupted()) return Fail(Code::kInterrupted, "interrupted");
  return {};
}

void SleepInterruptibly(std::chrono::milliseconds time) {
  if (current == nullptr) return std::this_thread::sleep_for(time);
  const auto until = std::chrono::steady_clock::now() + time;
  while (!Interrupted()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return;
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(until - now, kLook));
  }
}

}  // namespace skerry
