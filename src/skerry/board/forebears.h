// The runs that a run comes from.
#ifndef SKERRY_BOARD_FOREBEARS_H_
#define SKERRY_BOARD_FOREBEARS_H_

#include <vector>

#include "skerry/board/board.h"

namespace skerry {

// Of longer lines the older ones are left out: run.json is anybody's who may write to the board.
inline constexpr size_t kMostForebears = 64;

// The run that it was forked from, the one that that was forked from, and so on; empty for a run that is no fork.
Result<std::vector<RunId>> ForebearsOf(const Board& board, const RunId& run);

}  // namespace skerry

#endif  // SKERRY_BOARD_FOREBEARS_H_
