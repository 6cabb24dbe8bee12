// What one of several writers of a version says about its part, on the board until the version is out.
#ifndef SKERRY_BOARD_PART_RECEIPT_H_
#define SKERRY_BOARD_PART_RECEIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/board/names.h"
#include "skerry/board/references.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

struct PartReceipt {
  static constexpr uint64_t kFormat = 1;

  RunId run;
  Version version;  // that is to be published
  Digest base;      // SHA-256 of the manifest of the version before
  uint64_t index = 0, of = 1;
  PatchPart part;
  // Of the part's tensors, in their order.
  std::vector<RunningDigest> base_digests, target_digests;
  uint64_t changed = 0, tensors_changed = 0, side_files_changed = 0;
  // Of a boxed part, whose digests are what its boxes add to those of their tensors: the same part of skips that lead
  // to the version.
  struct Skip {
    Version from;
    ObjectRef object;
    bool operator==(const Skip&) const = default;
  };
  std::vector<Skip> skips;

  bool operator==(const PartReceipt&) const = default;
};

inline constexpr uint64_t kMaxPartReceiptBytes = 32 << 20;
inline constexpr uint64_t kMaxWriters = 4096;

// Canonical and strict, like those of manifest.h.
Result<Bytes> SerializePartReceipt(const PartReceipt& receipt);
Result<PartReceipt> ParsePartReceipt(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_BOARD_PART_RECEIPT_H_
