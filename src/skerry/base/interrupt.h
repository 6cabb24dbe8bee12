// Ending long work from outside: its thread is told to stop, and the work fails with kInterrupted at the next of a few
// central places that look (CheckInterrupt, marked "interruption point" where it is declared).
//
// What an interrupted call leaves on a disk or a board is what a kill at that place leaves.
#ifndef SKERRY_BASE_INTERRUPT_H_
#define SKERRY_BASE_INTERRUPT_H_

#include <atomic>
#include <chrono>

#include "skerry/base/result.h"

namespace skerry {

// While it lives, its thread's work ends soon after `flag` has become true. nullptr: the work can't be interrupted. Who
// starts threads for a piece of work gives them the flag of its own:
//   std::thread([flag = Interruptible::Current()] { const Interruptible inherited(flag); … });
class Interruptible {
 public:
  explicit Interruptible(const std::atomic<bool>* flag);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // Of this thread; nullptr where nobody can interrupt it.
  static const std::atomic<bool>* Current();

 private:
  const std::atomic<bool>* const outer_;
};

// Whether this thread's work is to end.
bool Interrupted();

// kInterrupted when it is. For the start of a piece of work that takes long.
Status CheckInterrupt();

// Sleeps, but not on after an interruption: an interruption point of the caller's, who looks when it returns.
void SleepInterruptibly(std::chrono::milliseconds time);

}  // namespace skerry

#endif  // SKERRY_BASE_INTERRUPT_H_
