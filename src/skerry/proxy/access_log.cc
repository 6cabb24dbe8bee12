#include "skerry/proxy/access_log.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "skerry/base/clock.h"
#include "skerry/base/log.h"
#include "skerry/proxy/stamped_run.h"

namespace skerry {

Result<AccessLog> AccessLog::Open(const Path& path) {
  AccessLog log;
  if (path.empty()) return log;
  log.path_ = path;
  log.file_.reset(std::fopen(path.c_str(), "ae"));
  if (!log.file_) return Fail(Code::kIo, "cannot open the access log {}: {}", path.string(), std::strerror(errno));
  return log;
}

void AccessLog::Write(const AccessLogEntry& entry) {
  if (!file_) return;
  using Json = nlohmann::ordered_json;
  const auto text = [](std::string_view value) { return value.empty() ? Json() : Json(value); };
  Json line = {{"time", FormatTime(std::chrono::system_clock::now())},
               {"client", text(entry.client)},
               {"method", text(entry.method)},
               {"path", text(entry.path)},
               {"status", entry.status},
               {"engine", text(entry.engine)},
               {"run", nullptr},
               {"start", nullptr},
               {"end", nullptr},
               {"bytes_in", entry.bytes_in},
               {"bytes_out", entry.bytes_out},
               {"seconds", entry.seconds},
               {"first_byte_seconds", nullptr},
               {"trace", text(entry.trace)},
               {"ended", text(entry.ended)}};
  if (entry.start) {
    line["run"] = StampedRun(entry.start->run);
    if (entry.start->version) line["start"] = entry.start->version->number();
  }
  if (entry.end) line["end"] = entry.end->number();
  if (entry.first_byte_seconds) line["first_byte_seconds"] = *entry.first_byte_seconds;
  const std::string bytes = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(bytes.data(), 1, bytes.size(), file_.get());
}

void AccessLog::Flush() {
  if (!file_) return;
  if (std::fflush(file_.get()) == 0 && std::ferror(file_.get()) == 0) return;
  if (!failed_) LogWarning("lines of the access log {} are lost: {}", path_.string(), std::strerror(errno));
  failed_ = true;
  std::clearerr(file_.get());
}

}  // namespace skerry
