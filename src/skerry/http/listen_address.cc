#include "skerry/http/listen_address.h"

#include <arpa/inet.h>

#include <charconv>

namespace skerry {

namespace {

bool IsAddress(int family, const std::string& text) {
  in6_addr parsed{};
  return inet_pton(family, text.c_str(), &parsed) == 1;
}

}  // namespace

std::string ListenAddress::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool ListenAddress::IsLoopback() const {
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return IsAddress(AF_INET, host) && host.starts_with("127.");
}

Result<ListenAddress> ParseListenAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return Fail(Code::kInvalid, "listen address \"{}\" has no port: write it like 127.0.0.1:8090", text);
  }
  ListenAddress address;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return Fail(Code::kInvalid, "listen address \"{}\": the port \"{}\" is no number from 0 to 65535", text, port);
  }
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  address.host = bracketed ? host.substr(1, host.size() - 2) : host;
  if (address.host.empty() && !bracketed) address.host = "0.0.0.0";
  if (address.host == "localhost") address.host = "127.0.0.1";
  if (IsAddress(AF_INET6, address.host) && !bracketed) {
    return Fail(Code::kInvalid, "listen address \"{}\": an IPv6 address stands in brackets, like [::1]:8090", text);
  }
  if (!IsAddress(bracketed ? AF_INET6 : AF_INET, address.host)) {
    return Fail(Code::kInvalid, "listen address \"{}\": \"{}\" is no IP address (names are not looked up)", text, host);
  }
  return address;
}

}  // namespace skerry
