// "http://127.0.0.1:8000?reload=trust": where an engine's control routes are, and what the user says about them.
#ifndef SKERRY_ENGINE_ENGINE_ADDRESS_H_
#define SKERRY_ENGINE_ENGINE_ADDRESS_H_

#include <string>

#include "skerry/base/result.h"

namespace skerry {

struct EngineAddress {
  // As NormalHttpUrl has it, without a slash at its end and without options; may carry a user and password.
  std::string url;
  bool trust_reload = false;
  bool verify_checksum = false;
};

// kInvalid for what is no http:// or https:// URL and for options that nobody knows. Messages hold no secret.
Result<EngineAddress> ParseEngineAddress(const std::string& text);

// One form for what are the same address (RFC 3986, 6.2.2 and 6.2.3): scheme and host in small letters, no default
// port. Path and query stay as they are. What is no URL stays as it is, too.
std::string NormalHttpUrl(const std::string& url);

// That `url` begins with http:// or https:// and names a host.
Status CheckHttpUrl(const std::string& url);

}  // namespace skerry

#endif  // SKERRY_ENGINE_ENGINE_ADDRESS_H_
