// Asking the cache for memory while other work is done.
#ifndef SKERRY_BASE_READ_AHEAD_H_
#define SKERRY_BASE_READ_AHEAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace skerry {

// What a kernel asks for while it walks over a buffer: at each place, the bytes `distance` further on, as long as they
// lie within `bytes` behind that distance.
struct ReadAhead {
  size_t distance = 2048;  // just enough to hide the memory's latency
  size_t bytes = ~size_t{0};
};

// Asks for a range bit by bit, in so many steps, into the second-level cache. The range need not exist, so that its
// places are numbers and not pointers.
class SteppedReadAhead {
 public:
  SteppedReadAhead(const std::byte* data, size_t bytes, size_t steps)
      : next_(reinterpret_cast<uintptr_t>(data)),
        end_(next_ + bytes),
        step_((bytes / std::max<size_t>(1, steps) + kLine) / kLine * kLine) {}

  void Step() {
    const uintptr_t stop = std::min(end_, next_ + step_);
    for (; next_ < stop; next_ += kLine) __builtin_prefetch(reinterpret_cast<const void*>(next_), 0, 2);
  }

 private:
  static constexpr size_t kLine = 64;
  uintptr_t next_;
  const uintptr_t end_;
  const size_t step_;
};

}  // namespace skerry

#endif  // SKERRY_BASE_READ_AHEAD_H_
