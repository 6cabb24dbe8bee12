// How the documents of a board refer to other things: objects, patches over a part of the tensors, versions of other
// runs.
#ifndef SKERRY_BOARD_REFERENCES_H_
#define SKERRY_BOARD_REFERENCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "skerry/base/hash.h"
#include "skerry/board/names.h"

namespace skerry {

// An object by its place, size and content. Exactly one of `key` (relative to the board's root) and `uri` (outside the
// board: "file:///absolute/path", taken literally, without percent-decoding) is set.
struct ObjectRef {
  std::string key;
  std::string uri;
  uint64_t size = 0;
  Digest sha256;

  const std::string& name() const { return key.empty() ? uri : key; }
  bool operator==(const ObjectRef&) const = default;
};

// A patch over some tensors of a model: those with ordinals in `tensors` (ranges in the layout's order, rising and not
// touching), or all where that is empty. The patch counts tensors from 0 among its own. `boxed`: it is about boxes of
// these tensors, which it names itself; the other parts then are too.
struct PatchPart {
  struct TensorRange {
    uint64_t first = 0;
    uint64_t count = 0;
    bool operator==(const TensorRange&) const = default;
  };

  ObjectRef object;
  std::vector<TensorRange> tensors;
  bool boxed = false;
  bool operator==(const PatchPart&) const = default;
};

// The version of another run that a fork begins at.
struct ForkPoint {
  RunId run;
  Version version;
  Digest manifest;  // SHA-256
  bool operator==(const ForkPoint&) const = default;
};

// Limits on untrusted bytes.
inline constexpr size_t kMaxPatchParts = 16384;
inline constexpr size_t kMaxTensorRanges = 65536;  // of one part

}  // namespace skerry

#endif  // SKERRY_BOARD_REFERENCES_H_
