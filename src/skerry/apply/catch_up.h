// Brings a checkpoint directory to a version of a run: plan, fetch, verify, apply.
#ifndef SKERRY_APPLY_CATCH_UP_H_
#define SKERRY_APPLY_CATCH_UP_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/state.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"
#include "skerry/pull/fetch.h"
#include "skerry/pull/route.h"

namespace skerry {

// Where fetched patches lie and for how long.
struct CacheOptions {
  // What is kept at most, objects in use and being fetched included; a route one of whose steps needs more is kNoSpace
  // before anything is changed. 0: nothing is kept, patches lie in the state directory while they are needed.
  uint64_t bytes = 0;
  // A local folder that several processes, also of other checkpoints, may share. Empty: `.DIR.objects` beside the
  // directory.
  Path directory;
};

struct CatchUpOptions {
  std::optional<Version> version;  // default: the head
  // The run's head, for a caller who has just read it: it is read again only where what it leads to is not there.
  std::optional<Head> head;
  int threads = 1;
  Patience patience;
  RouteCosts costs;
  CanonicalOptions canonical;  // undo log, patience with readers
  CacheOptions cache;
  // Connections at once, for ranges of large objects and for the next patches of a route.
  int fetch_parallel = 4;
  // A local checkpoint of another run is replaced (by the cheapest route from an anchor) instead of refused. It stays
  // until the new one is complete.
  bool replace_other_run = false;
  // The local checkpoint is known to be damaged: it is not looked into, and replaced from an anchor.
  bool rebuild = false;
  // A run, or the wanted version of it, that is not on the board is kUnavailable ("not there yet") and waited for as
  // long as `patience` says, instead of kInvalid.
  bool wait_for_run = false;

  // Called on the caller's thread, before anything is fetched: a way has been found, perhaps to where the checkpoint is
  // already (no anchor, no hops). More than once where what the first way names has vanished.
  std::function<void(const Route& route)> on_route;
  // "plan", "fetch", "apply", "build" (from an anchor), "rebuild" (other shards), "exchange": what begins. Called on
  // the caller's thread.
  std::function<void(std::string_view stage)> on_stage;
};

struct CatchUpReceipt {
  Version version;
  std::vector<SideFile> side_files;  // of the version, as its manifest has them
  std::optional<Version> from;       // none: built from an anchor
  Digest model;
  // What the route had.
  bool anchor = false;
  uint64_t deltas = 0, skips = 0;
  uint64_t patches = 0;   // deltas + skips that were applied
  uint64_t rebuilds = 0;  // of these, those that changed the layout
  uint64_t bytes_fetched = 0;
  uint64_t journal_bytes = 0;
  uint64_t undo_bytes = 0;
  uint64_t changed = 0;   // elements, the sum over all patches
  uint64_t elements = 0;  // of the model
  std::string healed;     // why a damaged local checkpoint was rebuilt; empty where none was
  std::string replaced;   // "run version 7" of another run that was replaced; empty where none was

  // Of `apply_seconds`, what moves in place spent on decoding and verifying, on the journal, on writing the changed
  // elements, on making them durable. `fetch_seconds` is the time for which nothing could be done but wait for bytes.
  double plan_seconds = 0, fetch_seconds = 0, apply_seconds = 0;
  double decode_seconds = 0, journal_seconds = 0, write_seconds = 0, sync_seconds = 0;
  double wait_seconds = 0;  // of `apply_seconds`, until nobody read the files
};

// Makes `directory` (with its state in `directory`/.skerry) the wanted version, in one call over however many versions.
// A directory that is there moves in place where that is cheaper, one that is missing is built beside its final name
// and renamed when it is complete; also an older version than the one that is there is reached from an anchor. A local
// checkpoint that turns out to be damaged is rebuilt from an anchor. Refuses a directory that is not a checkpoint of
// this run. Where a whole directory takes the place of another, nobody reads it under ContentLock, and the undo log of
// the old one goes with it. A kill at any time leaves the old or the new version, or a started build that the next call
// goes on with.
Result<CatchUpReceipt> CatchUp(const Board& board, const RunId& run, const Path& directory,
                               const CatchUpOptions& options, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_APPLY_CATCH_UP_H_
