// What a publisher keeps of one view of a run, from one version to the next.
#ifndef SKERRY_PUBLISH_VIEW_STATE_H_
#define SKERRY_PUBLISH_VIEW_STATE_H_

#include <memory>
#include <string>
#include <utility>

#include "skerry/base/file.h"
#include "skerry/board/board.h"
#include "skerry/publish/publisher_state.h"
#include "skerry/publish/snapshot.h"

namespace skerry {

// Holds the lock of its state directory.
struct ViewState {
  // kConflict when another publisher is at work with this state directory.
  static Result<std::unique_ptr<ViewState>> Open(const Board& board, const RunId& run, const Path& directory) {
    SKERRY_ASSIGN(FileLock lock, TakeStateDirectory(directory));
    SKERRY_ASSIGN(PublisherState state, PublisherState::Open(directory, board.id(), run));
    return std::make_unique<ViewState>(board, run, directory, std::move(lock), std::move(state));
  }

  ViewState(const Board& b, const RunId& r, const Path& d, FileLock l, PublisherState s)
      : board(b), run(r), directory(d), lock(std::move(l)), state(std::move(s)), snapshot(directory / "snapshot") {}

  const Board board;
  const RunId run;
  const Path directory;
  const FileLock lock;
  PublisherState state;
  Snapshot snapshot;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_VIEW_STATE_H_
