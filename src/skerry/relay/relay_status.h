// What a relay shows of itself, as JSON (docs/relay.md lists the fields).
#ifndef SKERRY_RELAY_RELAY_STATUS_H_
#define SKERRY_RELAY_RELAY_STATUS_H_

#include <string>
#include <string_view>
#include <vector>

#include "skerry/http/server.h"
#include "skerry/relay/disk_cache.h"
#include "skerry/relay/heads.h"
#include "skerry/relay/upstreams.h"

namespace skerry {

struct RelayStatus {
  std::string version, started;
  std::string not_ready_because;  // empty: it is ready
  std::vector<Upstreams::View> upstreams;
  std::vector<Heads::View> heads;
  DiskCache::Counts cache;
  std::string cache_directory;
  uint64_t memory_bytes = 0, memory_limit = 0;
  size_t coming = 0, connections = 0;
};

ServerResponse StatusJson(const RelayStatus& status);
// 200, or 503 and why not.
ServerResponse ReadyJson(const std::string& problem);
// {"error": {"type", "message"}}
ServerResponse ErrorJson(int status, std::string_view type, std::string_view message);

}  // namespace skerry

#endif  // SKERRY_RELAY_RELAY_STATUS_H_
