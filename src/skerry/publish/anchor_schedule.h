// When a run needs a new anchor: by what a reader without anything has to fetch.
#ifndef SKERRY_PUBLISH_ANCHOR_SCHEDULE_H_
#define SKERRY_PUBLISH_ANCHOR_SCHEDULE_H_

#include <cstdint>
#include <map>

#include "skerry/board/manifest.h"
#include "skerry/publish/skip_builder.h"

namespace skerry {

// Anchors stand at least this far apart, and where skips begin.
inline constexpr uint64_t kAnchorDistance = kShortSkip;

// Bytes of the cheapest way from an anchor to each of the last versions, without the anchor's own.
using Tails = std::map<Version, uint64_t>;

// Adds the tail of a version by its edges from versions whose tails are known, and forgets those that no edge of a
// later version can begin at.
void AddTail(const Manifest& manifest, Tails& tails);

// Whether a version that has been published should get an anchor: it stands at a place for one, and the way to the next
// place would be longer than `share` of an anchor. A version whose tail is not known counts as far away. `anchors`:
// newest first. 0 switches anchors off.
bool AnchorIsDue(Version version, uint64_t checkpoint_bytes, const std::vector<AnchorRef>& anchors, const Tails& tails,
                 double share);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_ANCHOR_SCHEDULE_H_
