// What an island says of itself to those that send it requests: the document of `GET /v1/skerry/island` of an agent,
// and of its heartbeats to gateways (docs/gateway.md lists the members).
#ifndef SKERRY_GATEWAY_ISLAND_REPORT_H_
#define SKERRY_GATEWAY_ISLAND_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/board/names.h"

namespace skerry {

struct IslandReport {
  // Where requests go, "http://10.0.0.3:8089". Empty: to whoever sends this, at `port`.
  std::string url;
  uint16_t port = 0;
  std::string name;                // for people
  std::string instance;            // another one after each start of the agent
  std::string region;              // empty: none is said
  std::string run;                 // with its view
  std::optional<Version> version;  // that its engines in rotation serve
  std::optional<Version> head;     // of the run, as last seen
  bool ready = false;              // takes requests
  bool draining = false;           // is on its way out
  std::string because;             // why it is not ready; empty where it is
  uint64_t engines = 0;            // that take requests
  uint64_t running = 0, held = 0;  // requests
  uint64_t capacity = 1;           // requests that it can run at once

  // It takes other requests, or is another one, than `before`: worth telling at once.
  bool DiffersFrom(const IslandReport& before) const;
};

inline constexpr size_t kMostReportBytes = 16 << 10;

std::string ToJson(const IslandReport& report);

// From untrusted bytes. kInvalid, naming the member and its value, for what is no such document; kUnsupported for one
// of a newer format. Unknown members are passed over. A url comes back as "http://HOST:PORT" (CanonicalUrl).
Result<IslandReport> ParseIslandReport(std::string_view json);

// "http://HOST:PORT" in one spelling, so that two of one island are equal; kInvalid for anything that is no such
// address (upstream.h), or whose host is none of letters, digits and . : _ - (so that it can stand in a header).
Result<std::string> CanonicalUrl(const std::string& url);

}  // namespace skerry

#endif  // SKERRY_GATEWAY_ISLAND_REPORT_H_
