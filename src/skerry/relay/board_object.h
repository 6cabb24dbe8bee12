// What a key of a board is the name of (docs/board-protocol.md, "Keys"), as far as readers ask for it.
#ifndef SKERRY_RELAY_BOARD_OBJECT_H_
#define SKERRY_RELAY_BOARD_OBJECT_H_

#include <optional>
#include <string>
#include <string_view>

#include "skerry/board/names.h"

namespace skerry {

enum class ObjectKind {
  kBoardInfo,  // board.json
  kRunInfo,    // run.json
  kHead,       // the only one that changes
  kManifest,   // staged, or the alias
  kLayout,     // packed; its name is the digest of what is in it
  kAnchorDocument,
  kData,  // patches, tensor digests, parts and files of anchors: of any size
};

struct BoardObject {
  ObjectKind kind = ObjectKind::kData;
  RunId run;            // with the view; of board.json none
  Version version;      // of what lies below versions/ or anchors/
  bool anchor = false;  // below anchors/
  // What the key says about the SHA-256: its first 16 hexadecimal digits, of a layout all 64 (of the unpacked JSON);
  // empty where it says nothing.
  std::string digits;

  bool operator==(const BoardObject&) const = default;
};

// nullopt for keys that no reader asks for (leases, marks of gc, receipts of writers, probes), and for all others.
std::optional<BoardObject> ReadBoardKey(std::string_view key);

// The largest document of a kind, in bytes; of kData 0: any.
uint64_t MostBytesOf(ObjectKind kind);

}  // namespace skerry

#endif  // SKERRY_RELAY_BOARD_OBJECT_H_
