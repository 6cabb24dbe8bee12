// Which answers are worth another attempt, and the loop that makes it.
#ifndef SKERRY_HTTP_RETRYING_H_
#define SKERRY_HTTP_RETRYING_H_

#include <chrono>
#include <functional>
#include <optional>

#include "skerry/base/retry.h"
#include "skerry/http/client.h"

namespace skerry {

// 429 and 5xx, but not 501, which will never be otherwise.
bool IsTransient(const HttpResponse& response);

// What Retry-After asks for, when it is a number of seconds; a date is not understood.
std::optional<std::chrono::milliseconds> AskedPause(const HttpResponse& response);

// Calls `attempt` until it neither fails with kUnavailable nor gives an answer that `transient` names, or until
// `backoff` gives up; then the last outcome. `attempt` starts anew each time.
Result<HttpResponse> SendWithRetries(Backoff& backoff, const std::function<Result<HttpResponse>()>& attempt,
                                     const std::function<bool(const HttpResponse&)>& transient = IsTransient);

}  // namespace skerry

#endif  // SKERRY_HTTP_RETRYING_H_
