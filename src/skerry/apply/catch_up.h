// Brings a checkpoint directory to a version of a run: plan, fetch, verify, apply.
#ifndef SKERRY_APPLY_CATCH_UP_H_
#define SKERRY_APPLY_CATCH_UP_H_

#include <optional>
#include <string>

#include "skerry/apply/state.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/pull/fetch.h"
#include "skerry/pull/route.h"

namespace skerry {

struct CatchUpOptions {
  std::optional<Version> version;  // default: the head
  int threads = 1;
  Patience patience;
  RouteCosts costs;
};

struct CatchUpReceipt {
  Version version;
  std::optional<Version> from;  // none: built from an anchor
  uint64_t patches = 0;
  uint64_t bytes_fetched = 0;
  uint64_t changed = 0;
  Digest model;
  std::string healed;  // why a damaged local checkpoint was rebuilt; empty where none was
  double plan_seconds = 0, fetch_seconds = 0, apply_seconds = 0;
};

// Makes `directory` (with its state in `directory`/.skerry) the wanted version. A directory that is there moves in
// place where that is cheaper, one that is missing is built beside its final name and renamed when it is complete. A
// local checkpoint that turns out to be damaged is rebuilt from an anchor. Refuses a directory that is not a checkpoint
// of this run. A kill at any time leaves the old or the new version, or a started build that the next call goes on
// with.
Result<CatchUpReceipt> CatchUp(const Board& board, const RunId& run, const Path& directory,
                               const CatchUpOptions& options, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_APPLY_CATCH_UP_H_
