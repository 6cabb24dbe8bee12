// What a publisher knows from one version to the next, in its state directory.
#ifndef SKERRY_PUBLISH_PUBLISHER_STATE_H_
#define SKERRY_PUBLISH_PUBLISHER_STATE_H_

#include <optional>
#include <string>

#include "skerry/base/file.h"
#include "skerry/board/board.h"
#include "skerry/publish/anchor_schedule.h"

namespace skerry {

// Makes a state directory where it is missing, and takes it: kConflict, naming it, where another publisher is at work
// with it. What that one left unfinished is removed.
Result<FileLock> TakeStateDirectory(const Path& directory);

// The head that this publisher wrote last, so that the next publish need not read the board. A note and no truth: a
// head that has moved since lets the compare-and-swap fail, and then the note is dropped.
struct Position {
  HeadAt at;
  Manifest manifest;  // of that head
  Tails tails;
  // Anchors that the next manifest names.
  std::vector<AnchorRef> anchors;
};

// Files: `publisher` (a random id: whoever has it owns the epochs that it opened), `epoch` (the last one that it
// owned), `position`.
class PublisherState {
 public:
  // What was noted about another board (by its id) or run does not count.
  static Result<PublisherState> Open(const Path& directory, const std::string& board, const RunId& run);

  const std::string& id() const { return id_; }
  // 0: none yet.
  uint64_t epoch() const { return epoch_; }
  const std::optional<Position>& position() const { return position_; }

  // Before the head is moved: if that is not followed by SetPosition, nobody knows whether the head moved.
  Status ForgetPosition();
  Status SetPosition(Position position);
  // Remembers that it was about to own this epoch: before the head is moved, so that a kill right after that is no way
  // around the fence.
  Status OwnEpoch(uint64_t epoch);

 private:
  Path directory_;
  std::string of_;  // board and run
  std::string id_;
  uint64_t epoch_ = 0;
  std::optional<Position> position_;
};

}  // namespace skerry

#endif  // SKERRY_PUBLISH_PUBLISHER_STATE_H_
