// The pointer to the newest version of a run: the only mutable object of a board.
#ifndef SKERRY_BOARD_HEAD_H_
#define SKERRY_BOARD_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/hash.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"

namespace skerry {

// A manifest by its place and content.
struct ManifestRef {
  std::string key;
  Digest sha256;
  bool operator==(const ManifestRef&) const = default;
};

// Where the head of a run's further view is: at the same version, by a manifest of its own.
struct ViewHead {
  std::string view;
  ManifestRef manifest;
  Digest model;
  bool operator==(const ViewHead&) const = default;
};

struct Head {
  static constexpr uint64_t kFormat = 1;

  RunId run;
  uint64_t epoch = 1;  // fencing number: one publisher owns the head in each
  Version version;
  ManifestRef manifest;
  Digest model;
  std::string publisher;             // random id of the owner (RandomToken)
  std::string nonce;                 // fresh for each write (RandomToken): tells one's own write from another's
  uint64_t sequence = 1;             // counts the writes
  std::string time;                  // for people
  std::vector<ViewHead> views = {};  // sorted by name

  // The head as that view's readers see it; of the run's own view for no name. kNotFound names the views that there
  // are.
  Result<Head> OfView(std::string_view view) const;

  bool operator==(const Head&) const = default;
};

inline constexpr uint64_t kMaxHeadBytes = 64 << 10;
inline constexpr size_t kMaxViews = 32;  // of a run, beside its own

// Canonical: sorted keys, no white space. kInvalid when ParseHead would refuse it.
Result<Bytes> SerializeHead(const Head& head);

// Strict. Empty, NUL-filled and garbled bytes are kCorrupt, never a head at version 0.
Result<Head> ParseHead(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_BOARD_HEAD_H_
