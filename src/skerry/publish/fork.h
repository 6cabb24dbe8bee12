// Starts a run at a version of another: the only way back to an older version, since the numbers of a run only rise.
#ifndef SKERRY_PUBLISH_FORK_H_
#define SKERRY_PUBLISH_FORK_H_

#include <optional>

#include "skerry/base/clock.h"
#include "skerry/board/board.h"

namespace skerry {

struct ForkReceipt {
  ForkPoint origin;
  Digest model, layout;
  bool created = false;  // false: the run was there already, forked from the same
};

// Makes `run`, whose version 0 is `version` (default: the head's) of run `from`. No weights are copied: readers find
// the way to version 0 through `from`, of which gc keeps what they need. Layout and tensor digests, which are small,
// are copied. It has the further views of `from`, which may also be a single view: then it has only that one, as its
// own.
//   1. layout, tensor digests      crash: objects that nobody names
//   2. manifest, staged            crash: the same
//   3. head, created               crash: the run is there
//   4. alias, run.json             crash: the run is there; the same call again, or a publisher, adds them
// The same call again is a no-op; without `version` it is one whatever version the run was forked from. kConflict when
// the run exists from elsewhere, or when gc is about to remove the version; kNotFound when it can't be rebuilt any
// more.
Result<ForkReceipt> ForkRun(const Board& board, const RunId& run, const RunId& from, std::optional<Version> version,
                            const Clock& clock);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_FORK_H_
