#include "skerry/publish/anchor_schedule.h"

#include <algorithm>

namespace skerry {
namespace {

// An anchor's size before there is one: what packing leaves of bf16 weights.
constexpr double kPackedShare = 0.68;

}  // namespace

void AddTail(const Manifest& manifest, Tails& tails) {
  for (const Edge& edge : manifest.edges) {
    const auto from = tails.find(edge.from);
    if (from == tails.end()) continue;
    const uint64_t bytes = from->second + edge.bytes();
    const auto [at, first] = tails.try_emplace(manifest.version, bytes);
    at->second = std::min(at->second, bytes);
  }
  const uint64_t number = manifest.version.number();
  tails.erase(tails.begin(), tails.lower_bound(Version(number < kLongSkip ? 0 : number - kLongSkip)));
}

bool AnchorIsDue(Version version, uint64_t checkpoint_bytes, const std::vector<AnchorRef>& anchors, const Tails& tails,
                 double share) {
  if (share <= 0 || version.IsBase() || version.number() % kAnchorDistance != 0) return false;
  const uint64_t since = version.number() - (anchors.empty() ? 0 : anchors[0].version.number());
  if (since == 0) return false;
  const auto full = static_cast<double>(checkpoint_bytes);
  const bool packed = !anchors.empty() && anchors[0].bytes < checkpoint_bytes;
  const double anchor = packed ? static_cast<double>(anchors[0].bytes) : kPackedShare * full;
  const auto tail = tails.find(version);
  if (tail == tails.end()) return true;
  const double next_tail =
      static_cast<double>(tail->second) * static_cast<double>(since + kAnchorDistance) / static_cast<double>(since);
  return next_tail > share * anchor;
}

}  // namespace skerry
