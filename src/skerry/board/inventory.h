// Reads what is on a board for DecideRetention (retention.h).
#ifndef SKERRY_BOARD_INVENTORY_H_
#define SKERRY_BOARD_INVENTORY_H_

#include "skerry/board/board.h"
#include "skerry/board/retention.h"

namespace skerry {

// All runs that have a head, and their further views, each by its name. Lists the store, and reads every manifest,
// every anchor's document and every lease, one after another. An error when anything of it can't be read (a lease
// excepted, which a note tells of): who does not know what a version names can't know what to keep. Memory: some 200
// bytes an object, some 2 KB a version.
Result<StoredBoard> TakeInventory(const Board& board);

}  // namespace skerry

#endif  // SKERRY_BOARD_INVENTORY_H_
