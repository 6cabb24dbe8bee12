#include "skerry/base/clock.h"

#include <fmt/core.h>

#include <ctime>

namespace skerry {

const Clock& Clock::System() {
  struct Real : Clock {
    std::chrono::system_clock::time_point Now() const override { return std::chrono::system_clock::now(); }
  };
  static const Real real;
  return real;
}

std::string FormatTime(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, milliseconds % 1000);
}

}  // namespace skerry
