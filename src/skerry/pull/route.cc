#include "skerry/pull/route.h"

#include <algorithm>

namespace skerry {
namespace {

uint64_t BytesOf(const Edge& edge) {
  uint64_t bytes = 0;
  for (const ObjectRef& object : edge.objects) bytes += object.size;
  return bytes;
}

uint64_t BytesOf(const Anchor& anchor) {
  uint64_t bytes = 0;
  for (const AnchorFile& file : anchor.files) bytes += file.object.size;
  return bytes;
}

}  // namespace

Result<Edge> DeltaEdge(const Manifest& manifest) {
  for (const Edge& edge : manifest.edges) {
    if (edge.kind == "delta" && !manifest.version.IsBase() && edge.from == manifest.version.Previous()) return edge;
  }
  return Fail(Code::kUnsupported, "run {} version {} has no delta that leads to it", manifest.run, manifest.version);
}

Result<Route> PlanRoute(const Board& board, const Head& head, Version target, const std::optional<Have>& have) {
  SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(head, target));
  Route at_hand{.target = manifest};  // the walk so far, newest first
  std::optional<Route> best;
  while (true) {
    if (have && have->version == manifest.version) {
      if (have->model != manifest.model) {
        return Fail(Code::kMismatch,
                    "version {} here has model digest {}, but version {} of run {} on the board has {}", have->version,
                    have->model.Short(), manifest.version, manifest.run, manifest.model.Short());
      }
      if (!best || at_hand.bytes < best->bytes) best = at_hand;
      break;
    }
    if (manifest.anchor) {
      const uint64_t bytes = at_hand.bytes + BytesOf(*manifest.anchor);
      if (!best || bytes < best->bytes) {
        best = at_hand;
        best->bytes = bytes;
        best->anchor = manifest;
      }
      // Further back only the reader's own version can be cheaper.
      if (!have || have->version > manifest.version) break;
    }
    if (manifest.version.IsBase() || (best && at_hand.bytes >= best->bytes)) break;
    SKERRY_ASSIGN(const Edge edge, DeltaEdge(manifest));
    at_hand.bytes += BytesOf(edge);
    SKERRY_ASSIGN(Manifest parent, board.ReadParent(manifest));
    at_hand.deltas.push_back(std::move(manifest));
    manifest = std::move(parent);
  }
  if (!best) {
    return Fail(Code::kNotFound, "no anchor leads to version {} of run {}", target, head.run);
  }
  std::reverse(best->deltas.begin(), best->deltas.end());
  return *std::move(best);
}

}  // namespace skerry
