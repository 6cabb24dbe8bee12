// Which version an island shall serve.
#ifndef SKERRY_AGENT_POLICY_H_
#define SKERRY_AGENT_POLICY_H_

#include <optional>
#include <string>

#include "skerry/board/names.h"

namespace skerry {

// Follow the head of a run, staying at most `behind` versions behind it; or stay at `pinned`.
struct Policy {
  RunId run;
  std::optional<Version> pinned;
  uint64_t behind = 0;

  // "head", "head~3" or "7": what a person writes for --follow and what the status shows. The run is apart.
  std::string Follow() const;
  // kInvalid, naming the text, where it is none of these.
  static Result<Policy> Parse(const RunId& run, const std::string& follow);

  bool operator==(const Policy&) const = default;
};

// The version to go to from `live` (nullopt: nothing is served yet, or another run). A pinned version beyond the head
// is waited for: kUnavailable, naming both. With `behind`, an island that is near enough stays where it is, and one
// that is not goes to the head itself, so that the fewest switches are made.
Result<Version> WantedVersion(const Policy& policy, Version head, std::optional<Version> live);

}  // namespace skerry

#endif  // SKERRY_AGENT_POLICY_H_
