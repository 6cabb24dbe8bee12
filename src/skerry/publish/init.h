// Starts a run: version 0 from a base checkpoint.
#ifndef SKERRY_PUBLISH_INIT_H_
#define SKERRY_PUBLISH_INIT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

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
  uint64_t bytes = 0;                                           // of the base's files
  bool created = false;                                         // false: the run was there already, with the same base
  std::vector<std::pair<std::string, InitReceipt>> views = {};  // of its further views, by name
};

// Steps: objects of the anchor, layout, digests; run.json; manifest of version 0; head (create if absent). A crash
// before the last one leaves objects that the next call takes over. kConflict when the run exists with another base.
// `views`: version 0 in the further views that the run is to have, by their names; it has the same ones from then on.
Result<InitReceipt> InitRun(const Board& board, const RunId& run, const Checkpoint& base,
                            const std::map<std::string, const Checkpoint*, std::less<>>& views, BaseMode mode,
                            int threads, const Clock& clock, Progress& progress);
inline Result<InitReceipt> InitRun(const Board& board, const RunId& run, const Checkpoint& base, BaseMode mode,
                                   int threads, const Clock& clock, Progress& progress) {
  return InitRun(board, run, base, {}, mode, threads, clock, progress);
}

}  // namespace skerry

#endif  // SKERRY_PUBLISH_INIT_H_
