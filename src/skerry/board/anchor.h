// A full version on the board, for readers that have nothing to start from, or start from too far back.
#ifndef SKERRY_BOARD_ANCHOR_H_
#define SKERRY_BOARD_ANCHOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/board/references.h"

namespace skerry {

struct AnchorFile {
  std::string path;  // in the checkpoint
  ObjectRef object;
  bool operator==(const AnchorFile&) const = default;
};

// The document by which an anchor is found. Tensors come either in verbatim shards among `files` or as `parts`: patches
// from a model without tensors, which together hold them all. Side files are always among `files`. What is built from
// it is checked by the version's manifest, so an anchor needs no trust of its own.
struct Anchor {
  static constexpr uint64_t kFormat = 1;

  RunId run;
  Version version;
  Digest model;  // that of the version's manifest
  std::vector<AnchorFile> files;
  std::vector<PatchPart> parts;

  uint64_t bytes() const;  // of all objects
  bool operator==(const Anchor&) const = default;
};

// How a manifest names an anchor.
struct AnchorRef {
  Version version;
  uint64_t bytes = 0;  // of all its objects
  ObjectRef object;    // the document
  bool operator==(const AnchorRef&) const = default;
};

// Limits on untrusted bytes.
inline constexpr uint64_t kMaxAnchorBytes = 8 << 20;  // of the document
inline constexpr size_t kMaxAnchorFiles = 16384;

// Canonical and strict, like those of manifest.h.
Result<Bytes> SerializeAnchor(const Anchor& anchor);
Result<Anchor> ParseAnchor(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_BOARD_ANCHOR_H_
