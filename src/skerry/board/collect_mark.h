// The first phase of gc: what is condemned, and since when. Removed is only what was condemned for the grace period, so
// whoever has just planned over an object still gets it.
#ifndef SKERRY_BOARD_COLLECT_MARK_H_
#define SKERRY_BOARD_COLLECT_MARK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/board/board.h"

namespace skerry {

struct CollectMark {
  static constexpr uint64_t kFormat = 1;
  RunId run;
  std::map<std::string, uint64_t> condemned;  // key, below runs/<run>/: UTC milliseconds since 1970
  bool operator==(const CollectMark&) const = default;
};

// Limits on untrusted bytes. A directory board replaces objects of up to 1 MiB.
inline constexpr uint64_t kMaxCollectMarkBytes = 1 << 20;
inline constexpr size_t kMaxCondemned = 16384;
// What an entry adds to the bytes of its key.
inline constexpr size_t kCollectMarkEntryBytes = 48;

// Canonical and strict, like those of manifest.h.
Result<Bytes> SerializeCollectMark(const CollectMark& mark);
Result<CollectMark> ParseCollectMark(ByteSpan bytes);

struct CollectMarkAt {
  CollectMark mark;
  std::optional<Generation> generation;  // none: there is no mark yet
};

// An empty mark where there is none, or one that is damaged: then every grace period begins again.
Result<CollectMarkAt> ReadCollectMark(const Board& board, const RunId& run);

}  // namespace skerry

#endif  // SKERRY_BOARD_COLLECT_MARK_H_
