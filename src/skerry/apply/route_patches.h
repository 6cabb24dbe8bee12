// The patch files of a route's hops, one hop after the other, the next ones fetched ahead.
#ifndef SKERRY_APPLY_ROUTE_PATCHES_H_
#define SKERRY_APPLY_ROUTE_PATCHES_H_

#include <map>
#include <span>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/pull/object_fetcher.h"
#include "skerry/pull/route.h"

namespace skerry {

// One thread at a time. The hops must outlive it.
class RoutePatches {
 public:
  // While its files are in use. Without a cache they are removed with Done; what is not done is found again.
  struct Files {
    std::vector<Path> paths;
    uint64_t transferred = 0;
    std::vector<PinnedFile> pins;
  };

  // `folder`: where the files lie without a cache. Starts at once with the first hop.
  RoutePatches(const Board& board, std::span<const Hop> hops, const Path& folder, const FetchOptions& options,
               ObjectCache* cache);

  // In rising order.
  Result<Files> Take(size_t hop, Progress& progress);
  // The files are not needed again for this hop. (The same patch may be that of several hops, where a model went there,
  // back, and there again.)
  void Done(Files files);

  // Whether each hop of the route can be fetched within the bound of the cache and what is free below `folder`, where
  // that is; changes nothing. kNoSpace.
  static Status CheckRoom(std::span<const Hop> hops, const Path& folder, const ObjectCache* cache);

 private:
  const bool keeps_;
  std::vector<size_t> first_;    // of each hop's parts, and the end
  std::map<Path, size_t> uses_;  // still to come, of files that are not kept
  std::optional<ObjectFetcher> fetcher_;
};

}  // namespace skerry

#endif  // SKERRY_APPLY_ROUTE_PATCHES_H_
