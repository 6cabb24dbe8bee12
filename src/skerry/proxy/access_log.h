// One line of JSON for each request that was answered (docs/proxy.md lists its fields).
#ifndef SKERRY_PROXY_ACCESS_LOG_H_
#define SKERRY_PROXY_ACCESS_LOG_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/apply/state.h"
#include "skerry/base/file.h"
#include "skerry/base/result.h"

namespace skerry {

struct AccessLogEntry {
  std::string_view client, method, path, engine, trace, ended;
  int status = 0;
  std::optional<VersionLabel> start;
  std::optional<Version> end;
  uint64_t bytes_in = 0, bytes_out = 0;
  double seconds = 0;
  std::optional<double> first_byte_seconds;
};

// By one thread. Lines are gathered and written together. The file is opened for appending: it may be moved away and
// truncated by whoever rotates logs.
class AccessLog {
 public:
  // Appends to the file; an empty path: writes nothing.
  static Result<AccessLog> Open(const Path& path);

  bool enabled() const { return file_ != nullptr; }
  void Write(const AccessLogEntry& entry);
  // Now and then. A write that fails is told in the agent's log, once; its lines are lost.
  void Flush();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  Path path_;
  bool failed_ = false;
};

}  // namespace skerry

#endif  // SKERRY_PROXY_ACCESS_LOG_H_
