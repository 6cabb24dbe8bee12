// gc: removes from a board what nobody can ask for any more (retention.h), in two phases (collect_mark.h).
#ifndef SKERRY_BOARD_COLLECT_H_
#define SKERRY_BOARD_COLLECT_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/clock.h"
#include "skerry/board/board.h"
#include "skerry/board/retention.h"

namespace skerry {

struct CollectOptions {
  RetentionPolicy policy;
  std::chrono::seconds grace{3600};                 // from condemning to removing
  std::chrono::seconds leftovers_after{24 * 3600};  // of the store: longer than the longest write of a living writer
  bool dry_run = false;                             // decide and explain only
  std::optional<RunId> run;  // only this one and its views; the others are read all the same, for what they forked
};

struct CollectedKey {
  enum class State { kRemoved, kCondemned, kWaiting };  // kWaiting: there is no room left in this run's mark

  std::string key;
  std::string why;
  uint64_t bytes = 0;
  State state = State::kCondemned;
  uint64_t since = 0;  // condemned, UTC milliseconds since 1970
};

struct CollectedRun {
  RunId run;
  Retention retention;              // what stays and for whom
  std::vector<CollectedKey> keys;   // what goes. In a dry run: what would be done to it
  std::vector<std::string> leases;  // keys of those that expired and were removed

  uint64_t bytes(CollectedKey::State state) const;
  size_t count(CollectedKey::State state) const;
};

struct CollectReceipt {
  std::vector<CollectedRun> runs;
  uint64_t leftovers = 0;  // of the store's own: temporary files, unfinished uploads
};

// For each run:
//   1. decide what goes                               nothing is changed
//   2. write it to gc.json, each key with the time    crash: the mark; nothing is gone
//   3. remove what was condemned for `grace`: manifests, oldest first, then anchors' documents, then all else
//                                                     crash: some of it is gone; what is left has lost its manifest,
//                                                     or will, and is condemned by every later decision
//   4. write gc.json without it                       crash: it names keys that are not there, which the next call
//   drops
//   5. remove empty folders and expired leases        crash: the next call does
// Then the store's own leftovers. A mark is only kept while each new decision condemns the key too.
// Several calls at once harm nothing: kConflict for who finds the mark changed by another. An error leaves the runs
// after it untouched.
Result<CollectReceipt> Collect(const Board& board, const CollectOptions& options, const Clock& clock);

}  // namespace skerry

#endif  // SKERRY_BOARD_COLLECT_H_
