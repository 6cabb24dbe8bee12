// Temporary keys from services on the host: the container's endpoint and the instance's (IMDSv2).
#ifndef SKERRY_S3_CREDENTIAL_ENDPOINTS_H_
#define SKERRY_S3_CREDENTIAL_ENDPOINTS_H_

#include <optional>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/http/client.h"
#include "skerry/s3/credentials.h"

namespace skerry {

// Both: nullopt when the environment names no such endpoint (or switches it off); an error when it is named but gives
// no keys. The addresses are asked with short timeouts, twice at most.
Result<std::optional<Credentials>> FromContainer(const Environment& environment, HttpClient& http);
Result<std::optional<Credentials>> FromInstance(const Environment& environment, HttpClient& http);

// {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"} as both send it.
Result<Credentials> ParseCredentialJson(std::string_view text);
// "2026-11-29T20:31:05Z", with or without a fraction of a second; of the years 1970 to 2200.
std::optional<std::chrono::system_clock::time_point> ParseIsoTime(std::string_view text);

}  // namespace skerry

#endif  // SKERRY_S3_CREDENTIAL_ENDPOINTS_H_
