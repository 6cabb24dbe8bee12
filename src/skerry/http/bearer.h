// Bearer tokens of requests (RFC 6750, 2.1).
#ifndef SKERRY_HTTP_BEARER_H_
#define SKERRY_HTTP_BEARER_H_

#include <optional>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/http/headers.h"

namespace skerry {

// The token of "Authorization: Bearer TOKEN". nullopt where there is none, another scheme, or more than one such
// header.
std::optional<std::string> BearerTokenOf(const HttpHeaders& headers);

// Whether both are equal, in a time that does not depend on where they differ. An empty secret equals nothing, so that
// a token that was not configured lets nobody in.
bool SameSecret(std::string_view given, std::string_view secret);

// The text of a file that holds a secret, without white space around it; the error names the file.
Result<std::string> ReadTokenFile(const std::string& path);

}  // namespace skerry

#endif  // SKERRY_HTTP_BEARER_H_
