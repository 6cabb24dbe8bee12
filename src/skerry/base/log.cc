#include "skerry/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "skerry/base/text.h"

namespace skerry {
namespace {

std::atomic<LogFormat> log_format = LogFormat::kText;

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("skerry", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(log_format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%v"})"
                                                     : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
    return made;
  }();
  return *logger;
}

// The two characters that JSON forbids in a string of printable text.
std::string Escaped(std::string_view printable) {
  std::string escaped;
  for (const char c : printable) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

void SetLogFormat(LogFormat format) { log_format = format; }

void LogLine(LogLevel level, std::string_view message) {
  std::string text = Printable(message);
  if (log_format == LogFormat::kJson) text = Escaped(text);
  switch (level) {
    case LogLevel::kInfo: return Logger().info(text);
    case LogLevel::kWarning: return Logger().warn(text);
    case LogLevel::kError: return Logger().error(text);
  }
}

}  // namespace skerry
