// An engine's own account of which weights made which tokens.
#ifndef SKERRY_PROXY_SPANS_H_
#define SKERRY_PROXY_SPANS_H_

#include <optional>
#include <string>
#include <string_view>

namespace skerry {

// The value of `Skerry-Spans` for a JSON answer: "7:0-12,8:12-40;7:0-30". From vLLM's `choices[].weight_versions`
// ([{"version", "start","end"}], tokens, end exclusive), whose versions are labels (weight_label.h) of `run`; a label
// that is none, or of another run, is written as "?", and a choice without an account as nothing. nullopt where no
// choice has one, where one is malformed, or where a limit is passed.
std::optional<std::string> SpansOf(std::string_view body, std::string_view run);
inline constexpr size_t kLongestSpansBody = 4 << 20;
inline constexpr size_t kMostSpannedChoices = 1024;
inline constexpr size_t kLongestSpans = 4096;  // of the value, in bytes: HTTP clients limit a field to 8 KiB and less

}  // namespace skerry

#endif  // SKERRY_PROXY_SPANS_H_
