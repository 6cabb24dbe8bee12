// Where a server listens, as it is written on a command line.
#ifndef SKERRY_HTTP_LISTEN_ADDRESS_H_
#define SKERRY_HTTP_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "skerry/base/result.h"

namespace skerry {

struct ListenAddress {
  std::string host = "127.0.0.1";  // an IPv4 or IPv6 address, without brackets
  uint16_t port = 0;               // 0: a free one

  // "127.0.0.1:8090", "[::1]:8090".
  std::string ToString() const;
  // Only this host can reach it.
  bool IsLoopback() const;

  bool operator==(const ListenAddress&) const = default;
};

// "127.0.0.1:8090", "[::1]:8090", "localhost:8090" (127.0.0.1), ":8090" (all of this host's IPv4 addresses, 0.0.0.0).
// Names are not looked up. kInvalid, naming the text and what is wrong with it.
Result<ListenAddress> ParseListenAddress(std::string_view text);

}  // namespace skerry

#endif  // SKERRY_HTTP_LISTEN_ADDRESS_H_
