// Beginning from a copy of the base that is on the local disk already, instead of fetching it.
#ifndef SKERRY_APPLY_SEED_H_
#define SKERRY_APPLY_SEED_H_

#include "skerry/base/progress.h"
#include "skerry/board/board.h"

namespace skerry {

// Where `directory` is missing or empty: copies the checkpoint at `base` there, as version 0 of the run or of the run
// that it was forked from, whichever it is. Its tensors are digested and its side files compared first: kMismatch,
// naming both digests, where they are not that version's, and nothing is left at `directory`. Side files that the
// version has not got are left out. Where `directory` is something already, nothing is done.
//   1. copy to `.DIR.seeding`, write its state    crash: swept by the next call
//   2. rename                                     crash: it is there, or not
Status SeedCheckpoint(const Board& board, const RunId& run, const Path& base, const Path& directory, int threads,
                      Progress& progress);

}  // namespace skerry

#endif  // SKERRY_APPLY_SEED_H_
