#include "skerry/apply/route_patches.h"

#include <algorithm>

namespace skerry {
namespace {

Path PathIn(const Path& folder, const ObjectRef& object) { return folder / (object.sha256.Hex() + ".skerry"); }

// A journal and an undo log take several times the bytes of the patch, at most about the checkpoint's: that much stays
// free while later hops are fetched ahead.
constexpr uint64_t kJournalOfPatch = 32;

uint64_t SpareBytes(std::span<const Hop> hops) {
  uint64_t spare = 0;
  for (const Hop& hop : hops) {
    spare = std::max(spare, std::min(hop.to.stats.checkpoint_bytes, kJournalOfPatch * hop.edge.bytes()));
  }
  return spare;
}

}  // namespace

RoutePatches::RoutePatches(const Board& board, std::span<const Hop> hops, const Path& folder,
                           const FetchOptions& options, ObjectCache* cache)
    : keeps_(cache != nullptr) {
  std::vector<ObjectFetcher::Wanted> wanted;
  for (const Hop& hop : hops) {
    first_.push_back(wanted.size());
    for (const PatchPart& part : hop.edge.parts) {
      wanted.push_back({part.object, PathIn(folder, part.object)});
      if (!keeps_) ++uses_[wanted.back().path];
    }
  }
  first_.push_back(wanted.size());
  fetcher_.emplace(board, std::move(wanted), options, AheadLimits{.spare_bytes = SpareBytes(hops)}, cache);
}

Result<RoutePatches::Files> RoutePatches::Take(size_t hop, Progress& progress) {
  Files files;
  for (size_t i = first_[hop]; i < first_[hop + 1]; ++i) {
    SKERRY_ASSIGN(FetchedObject fetched, fetcher_->Take(i, progress));
    files.paths.push_back(std::move(fetched.path));
    files.transferred += fetched.transferred;
    files.pins.push_back(std::move(fetched.pin));
  }
  return files;
}

void RoutePatches::Done(Files files) {
  if (keeps_) return;
  std::error_code error;
  for (const Path& path : files.paths) {
    if (--uses_[path] == 0) std::filesystem::remove(path, error);
  }
}

Status RoutePatches::CheckRoom(std::span<const Hop> hops, const Path& folder, const ObjectCache* cache) {
  std::error_code error;
  uint64_t most = 0;
  for (const Hop& hop : hops) {
    uint64_t bytes = 0;
    for (const PatchPart& part : hop.edge.parts) {
      const bool there =
          cache != nullptr ? cache->Has(part.object) : std::filesystem::exists(PathIn(folder, part.object), error);
      if (!there) bytes += part.object.size;
    }
    most = std::max(most, bytes);
  }
  if (most == 0) return {};
  if (cache != nullptr) return cache->CheckRoom(most);
  Path existing = folder;
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  return RequireSpace(existing, most, "the largest patch of the route");
}

}  // namespace skerry
