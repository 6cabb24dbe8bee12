// Starts a run: version 0 from a base checkpoint.
#ifndef SKERRY_PUBLISH_INIT_H_
#define SKERRY_PUBLISH_INIT_H_

#include "skerry/base/clock.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/tensors/checkpoint.h"

namespace skerry {

// How the board holds the base.
enum class BaseMode {
  kCopy,       // as objects of its own
  kLink,       // as hard links to the base's files, which must never be written again
  kReference,  // not at all: by absolute path and SHA-256; readers must see the same path
};

struct InitReceipt {
  Digest model, layout;
  uint64_t bytes = 0;    // of the base's files
  bool created = false;  // false: the run was there already, with the same base
};

// Steps: objects of the anchor, layout, digests; run.json; manifest of version 0; head (create if absent). A crash
// before the last one leaves objects that the next call takes over. kConflict when the run exists with another base.
Result<InitReceipt> InitRun(const Board& board, const RunId& run, const Checkpoint& base, BaseMode mode, int threads,
                            const Clock& clock, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_INIT_H_
