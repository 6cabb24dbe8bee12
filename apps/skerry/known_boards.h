// What a publisher's machine remembers about boards, so that a publish need not begin by asking.
#ifndef SKERRY_APPS_SKERRY_KNOWN_BOARDS_H_
#define SKERRY_APPS_SKERRY_KNOWN_BOARDS_H_

#include <memory>
#include <string>

#include "skerry/board/board.h"

namespace skerry {

// A note for each board, below the user's cache folder, by the name that the board was given. Where the note is wrong
// (another board has taken the place), the publish ends in a conflict: then forget it.
class KnownBoard {
 public:
  explicit KnownBoard(const std::string& name);

  // From the note, else from the store; then the note is written.
  Result<Board> Open() const;
  void Forget() const;

 private:
  std::string name_;
  Path note_;  // empty where there is no cache folder
};

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_KNOWN_BOARDS_H_
