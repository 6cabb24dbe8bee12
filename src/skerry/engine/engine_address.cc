#include "skerry/engine/engine_address.h"

#include "skerry/base/text.h"
#include "skerry/http/client.h"

namespace skerry {

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
  EngineAddress address{.url = text.substr(0, question)};
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
