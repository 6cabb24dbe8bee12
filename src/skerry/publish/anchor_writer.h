// Writes a full version to the board: packed tensors, verbatim side files, and the document that names them.
#ifndef SKERRY_PUBLISH_ANCHOR_WRITER_H_
#define SKERRY_PUBLISH_ANCHOR_WRITER_H_

#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

struct AnchorOptions {
  Path directory;  // for the part being made, and a note of those that are done
  int threads = 1;
  uint64_t part_bytes = 256 << 20;  // of tensors before packing: a part has at least one whole tensor
};

// Stores `checkpoint`, which is the version of `manifest`, as parts of whole tensors: patches from a model without
// tensors (docs/patch-format.md), made one after another, so that memory and disk are bounded by one part. A call that
// was interrupted goes on where the last one was. Nothing on the board names the result until a manifest does.
Result<AnchorRef> WriteAnchor(const Board& board, const Manifest& manifest, const Checkpoint& checkpoint,
                              const AnchorOptions& options, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_ANCHOR_WRITER_H_
