#include "skerry/http/retrying.h"

#include <charconv>

namespace skerry {

bool IsTransient(const HttpResponse& response) {
  return response.status == 429 || (response.status >= 500 && response.status != 501);
}

std::optional<std::chrono::milliseconds> AskedPause(const HttpResponse& response) {
  const std::optional<std::string> text = response.headers.Find("Retry-After");
  if (!text) return std::nullopt;
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return std::chrono::seconds(seconds);
}

Result<HttpResponse> SendWithRetries(Backoff& backoff, const std::function<Result<HttpResponse>()>& attempt,
                                     const std::function<bool(const HttpResponse&)>& transient) {
  while (true) {
    Result<HttpResponse> outcome = attempt();
    if (outcome ? !transient(*outcome) : outcome.error().code != Code::kUnavailable) {
      if (outcome) backoff.Succeeded();
      return outcome;
    }
    if (!backoff.WaitBeforeRetry(outcome ? AskedPause(*outcome) : std::nullopt)) return outcome;
  }
}

}  // namespace skerry
