// How to get from what a reader has to the version that it wants.
#ifndef SKERRY_PULL_ROUTE_H_
#define SKERRY_PULL_ROUTE_H_

#include <optional>
#include <vector>

#include "skerry/board/board.h"

namespace skerry {

struct Have {
  Version version;
  Digest model;
};

// Either begins at an anchor (a full version that is fetched whole) or at what the reader has; then deltas, oldest
// first.
struct Route {
  Manifest target;
  std::optional<Manifest> anchor;
  std::vector<Manifest> deltas;  // each one's delta edge leads from the version before it
  uint64_t bytes = 0;            // to fetch
};

// The cheapest route by bytes to `target`, which is not after `head`. Manifests are read backwards from the target,
// each checked against its child's record of it, so a route is as trustworthy as the head. kMismatch when the reader's
// version is not the board's version of that number.
Result<Route> PlanRoute(const Board& board, const Head& head, Version target, const std::optional<Have>& have);

// The edge of kind `delta` that leads to this version from the one before; kUnsupported when it has none that this
// program knows.
Result<Edge> DeltaEdge(const Manifest& manifest);

}  // namespace skerry

#endif  // SKERRY_PULL_ROUTE_H_
