// The two descriptions that are written once: what a board is and where a run comes from.
#ifndef SKERRY_BOARD_RUN_INFO_H_
#define SKERRY_BOARD_RUN_INFO_H_

#include <optional>
#include <string>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/board/references.h"
#include "skerry/board/write_safety.h"

namespace skerry {

struct BoardInfo {
  static constexpr uint64_t kFormat = 1;
  std::string id;  // random (RandomToken)
  // What the store's conditional writes were found to be when the board was made; absent: not known.
  std::optional<WriteSafety> writes = {};
  bool operator==(const BoardInfo&) const = default;
};

struct RunInfo {
  static constexpr uint64_t kFormat = 1;
  RunId run;
  std::string base;  // what version 0 was made from, for people
  std::optional<ForkPoint> parent;
  Digest layout;
  bool operator==(const RunInfo&) const = default;
};

inline constexpr uint64_t kMaxInfoBytes = 64 << 10;

// Canonical and strict, like those of manifest.h.
Result<Bytes> SerializeBoardInfo(const BoardInfo& info);
Result<BoardInfo> ParseBoardInfo(ByteSpan bytes);
Result<Bytes> SerializeRunInfo(const RunInfo& info);
Result<RunInfo> ParseRunInfo(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_BOARD_RUN_INFO_H_
