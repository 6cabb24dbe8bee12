// What init, fork and publish all put on a board.
#ifndef SKERRY_PUBLISH_VERSION_OBJECTS_H_
#define SKERRY_PUBLISH_VERSION_OBJECTS_H_

#include <vector>

#include "skerry/base/clock.h"
#include "skerry/board/board.h"
#include "skerry/tensors/checkpoint.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// The sidecar of tensor digests: two u64 a tensor, in layout order.
Result<ObjectRef> PutTensorDigests(const Board& board, const RunId& run, Version version,
                                   const std::vector<RunningDigest>& digests);

// Every side file of the checkpoint with its SHA-256.
Result<std::vector<SideFile>> DescribeSideFiles(const Checkpoint& checkpoint);

// What a head and a manifest of the run's own say of these manifests of its further views; sorted by name.
std::vector<ViewHead> HeadsOfViews(const std::vector<StagedManifest>& views);
std::vector<ViewManifest> ManifestsOfViews(const std::vector<StagedManifest>& views);

// Makes the head of a run that has none, at its version 0, in all views: owned by nobody who could publish, so that the
// first publisher claims it.
Result<HeadAt> CreateHead(const Board& board, const StagedManifest& first, const std::vector<StagedManifest>& views,
                          const Clock& clock);

// Puts the manifests of that head and of its views at their aliases.
Status SettleAll(const Board& board, const HeadAt& at, const StagedManifest& own,
                 const std::vector<StagedManifest>& views);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_VERSION_OBJECTS_H_
