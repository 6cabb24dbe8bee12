// Work of the C++ libraries that can last, called from Python: without the GIL, and ended by Ctrl-C.
#ifndef SKERRY_PYTHON_NATIVE_WORK_H_
#define SKERRY_PYTHON_NATIVE_WORK_H_

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <utility>

#include "errors.h"
#include "skerry/base/progress.h"

// Runs `work` on a thread of its own, which must touch nothing of Python. The calling thread, which has the GIL,
// releases it, waits, and every 50 ms
//   - looks for signals, as the interpreter does on its main thread,
//   - calls report(stage: str, done: int, total: int) where something has moved on; None: nobody wants to know. Also as
//     each stage begins, which waits for it, and once more at the end. Bytes, mostly.
// When a signal's handler raises (KeyboardInterrupt), or `report` does, the work is interrupted (base/interrupt.h), its
// end is waited for, and that exception is thrown.
void RunApart(const nanobind::object& report, const std::function<void(skerry::Progress&)>& work);

// Calls work(progress) so, and gives its Result's value or raises its error.
template <typename Work>
auto Call(const nanobind::object& report, Work work) {
  using Outcome = std::invoke_result_t<Work, skerry::Progress&>;
  std::optional<Outcome> outcome;
  RunApart(report, [&](skerry::Progress& progress) { outcome.emplace(work(progress)); });
  return Unwrap(*std::move(outcome));
}

// Calls work() without the GIL, on this thread: for what is short, or can't be interrupted.
template <typename Work>
auto Unlocked(Work work) {
  const nanobind::gil_scoped_release unlocked;
  return work();
}

// What `threads` means: 0 is all cores. Raises Invalid for a negative number.
int ThreadsOf(int64_t threads);

#endif  // SKERRY_PYTHON_NATIVE_WORK_H_
