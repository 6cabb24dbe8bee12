#include "skerry/agent/policy.h"

namespace skerry {

namespace {
constexpr std::string_view kHead = "head";
constexpr std::string_view kBehind = "head~";
}  // namespace

std::string Policy::Follow() const {
  if (pinned) return pinned->ToString();
  return behind == 0 ? std::string(kHead) : fmt::format("{}{}", kBehind, behind);
}

Result<Policy> Policy::Parse(const RunId& run, const std::string& follow) {
  Policy policy{.run = run};
  if (follow == kHead) return policy;
  const bool lags = follow.starts_with(kBehind);
  const auto number = Version::Parse(lags ? std::string_view(follow).substr(kBehind.size()) : follow);
  if (!number) {
    return Fail(Code::kInvalid, "what to follow is \"head\", \"head~K\" (at most K behind) or a version, not \"{}\"",
                follow);
  }
  if (lags) {
    policy.behind = number->number();
  } else {
    policy.pinned = *number;
  }
  return policy;
}

Result<Version> WantedVersion(const Policy& policy, Version head, std::optional<Version> live) {
  if (policy.pinned) {
    if (*policy.pinned <= head) return *policy.pinned;
    return Fail(Code::kUnavailable, "pinned to version {} of run {}, which is at version {}", *policy.pinned,
                policy.run, head);
  }
  if (live && *live > head) {
    return Fail(Code::kUnavailable, "the board shows run {} at version {}, but {} is here already: a replica that lags",
                policy.run, head, *live);
  }
  if (live && head.number() - live->number() <= policy.behind) return *live;
  return head;
}

}  // namespace skerry
