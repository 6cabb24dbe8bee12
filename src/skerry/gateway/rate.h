// How many of something happen a second, over the last ten.
#ifndef SKERRY_GATEWAY_RATE_H_
#define SKERRY_GATEWAY_RATE_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>

namespace skerry {

// Not thread-safe. Time is a parameter and never goes back.
class Rate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Add(uint64_t count, Time now) {
    Advance(now);
    buckets_[static_cast<size_t>(second_ % kSeconds)] += count;
  }
  // Of the last ten whole seconds.
  double PerSecond(Time now) {
    Advance(now);
    const uint64_t all = std::accumulate(buckets_.begin(), buckets_.end(), uint64_t{0});
    return static_cast<double>(all - buckets_[static_cast<size_t>(second_ % kSeconds)]) / (kSeconds - 1);
  }

 private:
  static constexpr int64_t kSeconds = 11;  // the current one too

  void Advance(Time now) {
    const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    if (second - second_ >= kSeconds) {
      buckets_.fill(0);
      second_ = second;
    }
    while (second_ < second) buckets_[static_cast<size_t>(++second_ % kSeconds)] = 0;
  }

  std::array<uint64_t, kSeconds> buckets_{};
  int64_t second_ = 0;
};

}  // namespace skerry

#endif  // SKERRY_GATEWAY_RATE_H_
