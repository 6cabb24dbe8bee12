// Builds a full version in a folder of its own out of an anchor.
#ifndef SKERRY_APPLY_ANCHOR_BUILD_H_
#define SKERRY_APPLY_ANCHOR_BUILD_H_

#include "skerry/apply/state.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/pull/fetch.h"
#include "skerry/pull/object_cache.h"

namespace skerry {

struct AnchorBuildOptions {
  int threads = 1;
  FetchOptions fetch;
  ObjectCache* cache = nullptr;  // where the parts lie; null: in the folder, until they are decoded
};

struct AnchorBuildReceipt {
  uint64_t bytes_fetched = 0;
  double fetch_seconds = 0, apply_seconds = 0;
};

// Makes `place` the checkpoint of `manifest`, whose anchor is `ref`:
//   1. mark the folder with the anchor it is for; another's leftovers are removed first
//   2. fetch the verbatim files                        crash: fetched files count next time, partly fetched ones too
//   3. for each part: fetch, decode, write, make durable, note it as done     crash: parts that are noted are not
//      fetched again. The next parts come while one is decoded.
//   4. compare the whole with the manifest's layout and model digest
//   5. write the state                                 crash: from here on the folder is a checkpoint
// A folder that has a state already is left as it is: it is that version or, gone on from there, a later one.
Result<AnchorBuildReceipt> BuildFromAnchor(const Board& board, const Manifest& manifest, const AnchorRef& ref,
                                           const Path& place, const AnchorBuildOptions& options, Progress& progress);

// Removes the mark of step 1, after which nobody goes on with the folder.
Status UnmarkAnchorBuild(const Path& place);

}  // namespace skerry

#endif  // SKERRY_APPLY_ANCHOR_BUILD_H_
