// Work spread over threads, with results taken in order.
#ifndef SKERRY_BASE_PARALLEL_H_
#define SKERRY_BASE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "skerry/base/interrupt.h"
#include "skerry/base/result.h"

namespace skerry {

// Hardware threads, at least 1.
inline int DefaultThreads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Runs produce(i) for 0 <= i < count on `threads` threads and consume(i, value) for each i in rising order, one at a
// time (on whichever thread is ready). At most 2 * threads results wait, which bounds memory. The first error stops
// the work and is returned; produce must be safe to call from several threads. Before each piece of work is an
// interruption point.
template <typename T, typename Produce, typename Consume>
Status ParallelOrdered(size_t count, int threads, Produce produce, Consume consume) {
  if (threads <= 1 || count <= 1) {
    for (size_t i = 0; i < count; ++i) {
      SKERRY_TRY(CheckInterrupt());
      SKERRY_ASSIGN(T value, produce(i));
      SKERRY_TRY(consume(i, std::move(value)));
    }
    return {};
  }
  std::mutex mutex;
  std::condition_variable moved;
  std::map<size_t, T> waiting;
  std::optional<Error> failure;
  size_t next_to_make = 0, next_to_take = 0;
  bool taking = false;
  const size_t window = 2 * static_cast<size_t>(threads);

  const auto work = [&, flag = Interruptible::Current()] {
    const Interruptible inherited(flag);
    std::unique_lock lock(mutex);
    while (true) {
      moved.wait(lock, [&] { return failure || next_to_make >= count || next_to_make < next_to_take + window; });
      if (failure || next_to_make >= count) return;
      const size_t index = next_to_make++;
      lock.unlock();
      const Status wanted = CheckInterrupt();
      Result<T> value = wanted ? produce(index) : Result<T>(tl::unexpected<Error>(wanted.error()));
      lock.lock();
      if (!value) {
        if (!failure) failure = std::move(value).error();
        moved.notify_all();
        return;
      }
      waiting.emplace(index, *std::move(value));
      while (!taking && !failure && !waiting.empty() && waiting.begin()->first == next_to_take) {
        auto node = waiting.extract(waiting.begin());
        taking = true;
        lock.unlock();
        Status taken = consume(node.key(), std::move(node.mapped()));
        lock.lock();
        taking = false;
        ++next_to_take;
        if (!taken && !failure) failure = std::move(taken).error();
        moved.notify_all();
      }
    }
  };
  std::vector<std::thread> pool;
  for (int t = 0; t < std::min<int>(threads, static_cast<int>(std::min<size_t>(count, 1024))); ++t) {
    pool.emplace_back(work);
  }
  for (std::thread& thread : pool) thread.join();
  if (failure) return tl::unexpected<Error>(std::move(*failure));
  return {};
}

// The same without results: run(i) for each i, in no order.
template <typename Run>
Status ParallelFor(size_t count, int threads, Run run) {
  return ParallelOrdered<char>(
      count, threads,
      [&](size_t i) -> Result<char> {
        SKERRY_TRY(run(i));
        return '\0';
      },
      [](size_t, char) -> Status { return {}; });
}

}  // namespace skerry

#endif  // SKERRY_BASE_PARALLEL_H_
