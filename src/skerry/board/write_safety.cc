#include "skerry/board/write_safety.h"

#include <algorithm>
#include <iterator>

namespace skerry {
namespace {

struct Description {
  WriteSafety safety;
  std::string_view name, follows;
};

constexpr Description kDescriptions[] = {
    {WriteSafety::kFull, "full",
     "every create and swap has one winner: several publishers may take over from each other"},
    {WriteSafety::kCreateOnly, "create-only",
     "objects can be created safely but not replaced: one publisher only, which nobody may take over from"},
    {WriteSafety::kNone, "none",
     "the store does not keep to conditions: one publisher only, which nobody may take over from"},
    {WriteSafety::kUnsafe, "unsafe", "racing writers can all win: one publisher only, which nobody may take over from"},
};

const Description& Describe(WriteSafety safety) { return kDescriptions[static_cast<size_t>(safety)]; }

}  // namespace

std::string_view NameOf(WriteSafety safety) { return Describe(safety).name; }

std::optional<WriteSafety> WriteSafetyFromName(std::string_view name) {
  const auto* found = std::ranges::find(kDescriptions, name, &Description::name);
  if (found == std::end(kDescriptions)) return std::nullopt;
  return found->safety;
}

std::string_view WhatFollows(WriteSafety safety) { return Describe(safety).follows; }

}  // namespace skerry
