// Brings objects of a board to the local disk, verified.
#ifndef SKERRY_PULL_FETCH_H_
#define SKERRY_PULL_FETCH_H_

#include <chrono>
#include <functional>

#include "skerry/base/progress.h"
#include "skerry/board/board.h"

namespace skerry {

// How long to wait for what a manifest names but the store does not show yet: network file systems show a new directory
// up to half a minute late, replicas later. `sleep` is injected so that tests own the time; it is called from several
// threads at once where several things are waited for.
struct Patience {
  std::chrono::milliseconds limit{60'000};
  std::function<void(std::chrono::milliseconds)> sleep;  // empty: really sleeps

  // Runs `attempt` until it succeeds or fails with anything but kNotFound and kUnavailable; gives up with kUnavailable,
  // naming `what`, when the limit is used up.
  Status Retry(std::string_view what, const std::function<Status()>& attempt) const;
};

struct FetchOptions {
  Patience patience;
  // Ranges that are read at once, over all objects. 1: one after the other, on the caller's thread.
  int parallel = 1;
  // How often a whole object is fetched before its wrong SHA-256 is an error.
  int attempts = 1;
};

// Fetches `object` to `path`: to `path`.part first (going on with one that is there, see part_file.h), checks size and
// SHA-256, fsyncs, renames. A `path` that exists already and has the right content is left alone. kCorrupt when the
// bytes are wrong, and then nothing stands at `path`. Several processes may fetch the same: one does, the others wait
// for it, or go on in its place when it dies. Returns the bytes that were transferred.
Result<uint64_t> FetchObject(const Board& board, const ObjectRef& object, const Path& path, const FetchOptions& options,
                             Progress& progress);

}  // namespace skerry

#endif  // SKERRY_PULL_FETCH_H_
