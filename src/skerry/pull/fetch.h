// Brings objects of a board to the local disk, verified.
#ifndef SKERRY_PULL_FETCH_H_
#define SKERRY_PULL_FETCH_H_

#include <chrono>
#include <functional>

#include "skerry/base/progress.h"
#include "skerry/board/board.h"

namespace skerry {

// How long to wait for what a manifest names but the store does not show yet: network file systems show a new directory
// up to half a minute late, replicas later. `sleep` is injected so that tests own the time.
struct Patience {
  std::chrono::milliseconds limit{60'000};
  std::function<void(std::chrono::milliseconds)> sleep;  // empty: really sleeps

  // Runs `attempt` until it succeeds or fails with anything but kNotFound and kUnavailable; gives up with kUnavailable,
  // naming `what`, when the limit is used up.
  Status Retry(std::string_view what, const std::function<Status()>& attempt) const;
};

// Fetches `object` to `path`: streams to `path`.part (continuing one that is there), checks size and SHA-256, fsyncs,
// renames. A `path` that exists already and has the right content is left alone. kCorrupt when the bytes are wrong, and
// then nothing stands at `path`. Returns the bytes that were transferred.
Result<uint64_t> FetchObject(const Board& board, const ObjectRef& object, const Path& path, const Patience& patience,
                             Progress& progress);

}  // namespace skerry

#endif  // SKERRY_PULL_FETCH_H_
