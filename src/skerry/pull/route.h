// How to get from what a reader has to the version that it wants.
#ifndef SKERRY_PULL_ROUTE_H_
#define SKERRY_PULL_ROUTE_H_

#include <optional>
#include <vector>

#include "skerry/board/board.h"

namespace skerry {

struct Have {
  RunId run;
  Version version;
  Digest model;
};

// What a route costs, in seconds: its bytes over the link, and for each patch and anchor the checkpoint's bytes over
// the rate at which they are decoded and written.
struct RouteCosts {
  double link_bytes_per_second = 125e6;
  double apply_bytes_per_second = 2e9;

  double Of(uint64_t fetched, uint64_t checkpoint_bytes) const {
    return static_cast<double>(fetched) / link_bytes_per_second +
           static_cast<double>(checkpoint_bytes) / apply_bytes_per_second;
  }
};

// A patch on the way: `edge` leads to the version of `to`.
struct Hop {
  Manifest to;
  Edge edge;
};

struct AnchorStart {
  Manifest manifest;
  AnchorRef anchor;
};

// Begins at an anchor, or at what the reader has; then patches, oldest first.
struct Route {
  Manifest target;
  std::optional<AnchorStart> anchor;
  std::vector<Hop> hops;
  uint64_t bytes = 0;  // to fetch
  double cost = 0;
};

// The cheapest route to `target`, which is not after `head`, over deltas, skips, the anchors that the target's manifest
// names (where it names none, those of the version that its run was forked from), and forks. Manifests are read
// backwards from the target, as few as the search needs; each is checked against what led to it (the parent's SHA-256
// or the model digest), so a route is as trustworthy as the head. A version whose manifest is gone is no way. kMismatch
// when the reader's version is not the board's version of that number; kNotFound when there is no way.
Result<Route> PlanRoute(const Board& board, const Head& head, Version target, const std::optional<Have>& have,
                        const RouteCosts& costs = {});

}  // namespace skerry

#endif  // SKERRY_PULL_ROUTE_H_
