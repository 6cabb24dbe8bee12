// What a long-running command tells its operator: lines on standard error.
#ifndef SKERRY_BASE_LOG_H_
#define SKERRY_BASE_LOG_H_

#include <fmt/core.h>

#include <string_view>

namespace skerry {

enum class LogLevel { kInfo, kWarning, kError };

// As text for people ("2026-11-30T06:58:00.123Z info …") or as one JSON object a line (time, level, message). Call it
// before the first line.
enum class LogFormat { kText, kJson };
void SetLogFormat(LogFormat format);

// Thread-safe. Control characters in the message are made printable.
void LogLine(LogLevel level, std::string_view message);

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace skerry

#endif  // SKERRY_BASE_LOG_H_
