// Which version a request wants to be answered by: from its headers and from the member `weight_version` of its body.
#ifndef SKERRY_PROXY_VERSION_CONSTRAINT_H_
#define SKERRY_PROXY_VERSION_CONSTRAINT_H_

#include <chrono>
#include <optional>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/http/headers.h"

namespace skerry {

struct VersionConstraint {
  std::optional<Version> min, exact;  // at most one of them
  // How long the request may be held until the version is live; none given: not at all.
  std::optional<std::chrono::milliseconds> wait;

  // Numbers count as in the board's protocol; another run's numbers are not compared here.
  bool MetBy(Version version) const { return exact ? version == *exact : !min || version >= *min; }
  // `version` is older than what is wanted: a newer one may do.
  bool IsAhead(Version version) const { return exact ? *exact > version : min && *min > version; }
  bool pinned() const { return min || exact; }
  // min or exact, whichever it is.
  std::optional<Version> wanted() const { return exact ? exact : min; }
};

inline constexpr std::chrono::seconds kLongestWait{3600};

// From `Skerry-Min-Version`, `Skerry-Exact-Version` and `Skerry-Wait`, and from the text of the body's `weight_version`
// (empty: it has none). kInvalid, naming the header or member and its value (at most 40 bytes of it), for what
// docs/proxy.md answers with 400.
Result<VersionConstraint> ParseVersionConstraint(const HttpHeaders& headers, std::string_view body_member);

}  // namespace skerry

#endif  // SKERRY_PROXY_VERSION_CONSTRAINT_H_
