// `skerry relay`: a board for a region, read-only, over the board itself. docs/relay.md is the normative text.
#ifndef SKERRY_RELAY_RELAY_H_
#define SKERRY_RELAY_RELAY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/board/store.h"
#include "skerry/http/listen_address.h"
#include "skerry/http/server.h"

namespace skerry {

struct RelayOptions {
  std::string version;                            // of Skerry
  std::vector<std::shared_ptr<Store>> upstreams;  // places of one board, in the order of preference; at least one
  ListenAddress listen;
  std::optional<TlsFiles> tls;  // none: plain HTTP
  Path cache;
  uint64_t cache_bytes = 0;
  uint64_t memory_bytes = 512 << 20;            // for objects that the disk has no room for
  std::chrono::milliseconds head_fresh{1'000};  // a head that was told not longer ago is given without asking
  int fetch_threads = 8;                        // ranges that are fetched at once
  std::string token;                            // that readers must have; empty: none
  size_t max_connections = 20'000;              // lessened to what the process may open
  std::chrono::milliseconds grace{10'000};      // for running requests, at the relay's end
};

// Serves until it is stopped. Start and Stop belong to one thread.
class Relay {
 public:
  // kConflict where another relay has the cache; errors of listening as WebServer's.
  static Result<std::unique_ptr<Relay>> Start(RelayOptions options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string url() const;
  // Requests that wait for a head are answered, others have the grace to end.
  void Stop();

 private:
  class Core;
  explicit Relay(std::unique_ptr<Core> core);
  const std::unique_ptr<Core> core_;
};

// Runs one until SIGTERM or SIGINT.
Status RunRelay(RelayOptions options);

}  // namespace skerry

#endif  // SKERRY_RELAY_RELAY_H_
