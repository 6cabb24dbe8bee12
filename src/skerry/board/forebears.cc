#include "skerry/board/forebears.h"

namespace skerry {

Result<std::vector<RunId>> ForebearsOf(const Board& board, const RunId& run) {
  std::vector<RunId> forebears;
  for (RunId at = run; forebears.size() < kMostForebears;) {
    SKERRY_ASSIGN(const RunInfo info, board.ReadRun(at));
    if (!info.parent) break;
    at = info.parent->run;
    forebears.push_back(at);
  }
  return forebears;
}

}  // namespace skerry
