#include "skerry/pull/route.h"

#include <algorithm>
#include <map>
#include <queue>

namespace skerry {
namespace {

// A version on the way back from the target. `toward` is the node that it leads to, one step nearer to the target.
struct Node {
  RunId run;
  Version version;
  double cost = 0;  // from here to the target
  uint64_t bytes = 0;
  size_t toward = 0;
  std::optional<Edge> edge;           // that leads there; none from a fork's origin, which is the same version
  std::optional<Digest> manifest_is;  // what the manifest here must be, where that is known
  std::optional<Manifest> manifest;   // read when the search gets here
};

// Dijkstra's algorithm from the target backwards, with the cheapest anchor as the lower bound of what is still to come
// where the reader has nothing.
class Search {
 public:
  Search(const Board& board, const Head& head, const std::optional<Have>& have, const RouteCosts& costs)
      : board_(board), head_(head), have_(have), costs_(costs) {}

  Result<Route> To(Version target);

 private:
  struct Open {
    double bound = 0;  // of the whole route
    size_t node = 0;
    const AnchorRef* anchor = nullptr;  // the route ends here with this anchor
    bool operator<(const Open& other) const { return bound > other.bound; }
  };

  Status Read(Node& node) const;
  void Visit(Node node);
  void Expand(size_t index);
  void LookAtAnchors(const Manifest& manifest);
  Route Finish(size_t index, const AnchorRef* anchor) const;

  const Board& board_;
  const Head& head_;
  const std::optional<Have>& have_;
  const RouteCosts& costs_;
  std::vector<AnchorRef> anchors_;  // of anchors_run_
  RunId anchors_run_;
  double cheapest_anchor_ = 0;
  std::vector<Node> nodes_;
  std::map<std::pair<RunId, Version>, double> best_;
  std::priority_queue<Open> open_;
};

Status Search::Read(Node& node) const {
  if (node.manifest) return {};
  if (node.manifest_is) {
    SKERRY_ASSIGN(node.manifest, board_.ReadManifest(node.run, node.version, *node.manifest_is));
  } else if (node.edge) {
    SKERRY_ASSIGN(node.manifest, board_.ReadSettledManifest(node.run, node.version));
  } else {
    SKERRY_ASSIGN(node.manifest, board_.ReadManifest(head_, node.version));
  }
  const Node& next = nodes_[node.toward];
  if (node.edge && node.edge->base_model != node.manifest->model) {
    return Fail(Code::kMismatch, "run {}: a patch to version {} is from model {}, but version {} is {}", node.run,
                next.version, node.edge->base_model.Short(), node.version, node.manifest->model.Short());
  }
  return {};
}

void Search::Visit(Node node) {
  const auto [at, first] = best_.try_emplace({node.run, node.version}, node.cost);
  if (!first && at->second <= node.cost) return;
  at->second = node.cost;
  open_.push({.bound = node.cost + (have_ ? 0 : cheapest_anchor_), .node = nodes_.size()});
  nodes_.push_back(std::move(node));
}

void Search::LookAtAnchors(const Manifest& manifest) {
  if (!anchors_.empty() || manifest.anchors.empty()) return;
  anchors_ = manifest.anchors;
  anchors_run_ = manifest.run;
  const auto cost = [&](const AnchorRef& anchor) { return costs_.Of(anchor.bytes, manifest.stats.checkpoint_bytes); };
  cheapest_anchor_ = cost(anchors_[0]);
  for (const AnchorRef& anchor : anchors_) cheapest_anchor_ = std::min(cheapest_anchor_, cost(anchor));
}

void Search::Expand(size_t index) {
  const Node node = nodes_[index];  // a copy: visiting moves the others
  const Manifest& manifest = *node.manifest;
  const uint64_t checkpoint = manifest.stats.checkpoint_bytes;
  for (const AnchorRef& anchor : anchors_) {
    if (node.run != anchors_run_ || anchor.version != node.version) continue;
    open_.push({.bound = node.cost + costs_.Of(anchor.bytes, checkpoint), .node = index, .anchor = &anchor});
  }
  if (manifest.fork) {
    Visit({.run = manifest.fork->run,
           .version = manifest.fork->version,
           .cost = node.cost,
           .bytes = node.bytes,
           .toward = index,
           .edge = std::nullopt,
           .manifest_is = manifest.fork->manifest,
           .manifest = std::nullopt});
  }
  for (const Edge& edge : manifest.edges) {
    if (edge.kind != "delta" && edge.kind != "skip") continue;
    Node before{.run = node.run,
                .version = edge.from,
                .cost = node.cost + costs_.Of(edge.bytes(), checkpoint),
                .bytes = node.bytes + edge.bytes(),
                .toward = index,
                .edge = edge,
                .manifest_is = std::nullopt,
                .manifest = std::nullopt};
    if (edge.from.Next() == node.version) before.manifest_is = manifest.parent;
    Visit(std::move(before));
  }
}

Route Search::Finish(size_t index, const AnchorRef* anchor) const {
  Route route{.target = *nodes_[0].manifest, .anchor = {}, .hops = {}, .bytes = nodes_[index].bytes, .cost = 0};
  route.cost = nodes_[index].cost;
  if (anchor != nullptr) {
    route.anchor = AnchorStart{.manifest = *nodes_[index].manifest, .anchor = *anchor};
    route.bytes += anchor->bytes;
    route.cost += costs_.Of(anchor->bytes, route.anchor->manifest.stats.checkpoint_bytes);
  }
  for (; index != 0; index = nodes_[index].toward) {
    const Node& node = nodes_[index];
    if (node.edge) route.hops.push_back({.to = *nodes_[node.toward].manifest, .edge = *node.edge});
  }
  return route;
}

Result<Route> Search::To(Version target) {
  Visit({.run = head_.run, .version = target});
  if (const Status read = Read(nodes_[0]); !read) {
    if (read.error().code != Code::kNotFound) return tl::unexpected<Error>(read.error());
    return Fail(Code::kNotFound,
                "version {} of run {} is not on the board: retention removed it, or a replica lags ({})", target,
                head_.run, read.error().message);
  }
  while (!open_.empty()) {
    const Open next = open_.top();
    open_.pop();
    if (next.anchor != nullptr) return Finish(next.node, next.anchor);
    Node& node = nodes_[next.node];
    if (best_.at({node.run, node.version}) < node.cost) continue;
    const bool is_here = have_ && have_->run == node.run && have_->version == node.version;
    // The patch from here says which model it is from: no manifest has to be read for that.
    if (is_here && node.edge && node.edge->base_model == have_->model) return Finish(next.node, nullptr);
    if (const Status read = Read(node); !read) {
      // Retention removed it, or a replica has not got it yet: perhaps there is another way.
      if (read.error().code == Code::kNotFound) continue;
      return tl::unexpected<Error>(read.error());
    }
    if (is_here) {
      if (have_->model == node.manifest->model) return Finish(next.node, nullptr);
      return Fail(Code::kMismatch, "version {} here has model digest {}, but version {} of run {} on the board has {}",
                  have_->version, have_->model.Short(), node.version, node.run, node.manifest->model.Short());
    }
    LookAtAnchors(*node.manifest);
    Expand(next.node);
  }
  return Fail(Code::kNotFound, "no anchor leads to version {} of run {}", target, head_.run);
}

}  // namespace

Result<Route> PlanRoute(const Board& board, const Head& head, Version target, const std::optional<Have>& have,
                        const RouteCosts& costs) {
  return Search(board, head, have, costs).To(target);
}

}  // namespace skerry
