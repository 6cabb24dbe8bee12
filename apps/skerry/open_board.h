// Opening the board that a command names.
#ifndef SKERRY_APPS_SKERRY_OPEN_BOARD_H_
#define SKERRY_APPS_SKERRY_OPEN_BOARD_H_

#include <string>

#include "skerry/board/board.h"
#include "skerry/board/store_url.h"

namespace skerry {

inline Result<Board> OpenBoard(const std::string& name) {
  SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(name, /*create=*/false));
  return Board::Open(std::move(store));
}

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_OPEN_BOARD_H_
