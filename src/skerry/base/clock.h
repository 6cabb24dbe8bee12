// Time as a parameter: code that stamps or waits takes a Clock, so that tests own the time.
#ifndef SKERRY_BASE_CLOCK_H_
#define SKERRY_BASE_CLOCK_H_

#include <chrono>
#include <string>

namespace skerry {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::system_clock::time_point Now() const = 0;

  static const Clock& System();
};

// "2026-11-29T20:31:05.123Z", UTC with milliseconds.
std::string FormatTime(std::chrono::system_clock::time_point time);

// Seconds since construction, for the receipts of timed stages.
class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  // Seconds since construction or the last Lap().
  double Lap() {
    const double seconds = Seconds();
    start_ = std::chrono::steady_clock::now();
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace skerry

#endif  // SKERRY_BASE_CLOCK_H_
