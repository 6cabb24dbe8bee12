#include "skerry/engine/engine_address.h"

#include <algorithm>

#include "skerry/base/text.h"
#include "skerry/http/client.h"

namespace skerry {
namespace {

std::string SmallLetters(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// "host:80" without a port that says nothing: an empty one, or the scheme's own. A colon within brackets is IPv6's.
std::string WithoutDefaultPort(const std::string& host, std::string_view scheme) {
  const size_t colon = host.rfind(':');
  if (colon == std::string::npos || host.find(']', colon) != std::string::npos) return host;
  const std::string port = host.substr(colon + 1);
  const bool says_nothing = port.empty() || port == (scheme == "https" ? "443" : "80");
  return says_nothing ? host.substr(0, colon) : host;
}

}  // namespace

std::string NormalHttpUrl(const std::string& url) {
  const size_t mark = url.find("://");
  if (mark == std::string::npos) return url;
  const std::string scheme = SmallLetters(url.substr(0, mark));
  const size_t begin = mark + 3, end = std::min(url.find_first_of("/?#", begin), url.size());
  const std::string authority = url.substr(begin, end - begin);
  const size_t at = authority.rfind('@');
  const std::string user = at == std::string::npos ? "" : authority.substr(0, at + 1);
  const std::string host = SmallLetters(authority.substr(user.size()));
  return scheme + "://" + user + WithoutDefaultPort(host, scheme) + url.substr(end);
}

Status CheckHttpUrl(const std::string& url) {
  const size_t scheme = url.find("://");
  const std::string name = url.substr(0, scheme == std::string::npos ? 0 : scheme);
  const bool has_host = scheme != std::string::npos && url.find_first_not_of("/?#", scheme + 3) == scheme + 3;
  if ((name == "http" || name == "https") && has_host && Printable(url) == url && url.find(' ') == std::string::npos) {
    return {};
  }
  return Fail(Code::kInvalid, "engine address '{}': expected http://HOST:PORT or https://HOST:PORT",
              UrlForMessages(url));
}

Result<EngineAddress> ParseEngineAddress(const std::string& text) {
  const size_t question = text.find('?');
  EngineAddress address{.url = NormalHttpUrl(text.substr(0, question))};
  SKERRY_TRY(CheckHttpUrl(address.url));
  while (address.url.back() == '/') address.url.pop_back();
  std::string options = question == std::string::npos ? "" : text.substr(question + 1);
  while (!options.empty()) {
    const size_t end = options.find('&');
    const std::string option = options.substr(0, end);
    options = end == std::string::npos ? "" : options.substr(end + 1);
    if (option == "reload=trust") {
      address.trust_reload = true;
    } else if (option == "verify=checksum") {
      address.verify_checksum = true;
    } else {
      return Fail(Code::kInvalid, "engine {}: unknown option '{}'; there are reload=trust and verify=checksum",
                  UrlForMessages(address.url), Printable(option.substr(0, option.find('='))));
    }
  }
  return address;
}

}  // namespace skerry
