// The parts of a version that init and publish both store.
#ifndef SKERRY_PUBLISH_VERSION_OBJECTS_H_
#define SKERRY_PUBLISH_VERSION_OBJECTS_H_

#include <vector>

#include "skerry/board/board.h"
#include "skerry/tensors/checkpoint.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// The sidecar of tensor digests: two u64 a tensor, in layout order.
Result<ObjectRef> PutTensorDigests(const Board& board, const RunId& run, Version version,
                                   const std::vector<RunningDigest>& digests);

// Every side file of the checkpoint with its SHA-256.
Result<std::vector<SideFile>> DescribeSideFiles(const Checkpoint& checkpoint);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_VERSION_OBJECTS_H_
