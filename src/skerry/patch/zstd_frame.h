// One zstd frame of untrusted bytes.
#ifndef SKERRY_PATCH_ZSTD_FRAME_H_
#define SKERRY_PATCH_ZSTD_FRAME_H_

#include <zstd.h>

#include "skerry/base/bytes.h"

namespace skerry {

// Fills `out` exactly from `packed`, which must be one frame and nothing else: ZSTD_decompress alone would go on over
// further and skippable frames.
inline bool DecompressFrame(ByteSpan packed, MutableByteSpan out) {
  if (ZSTD_findFrameCompressedSize(packed.data(), packed.size()) != packed.size()) return false;
  const size_t got = ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
  return !ZSTD_isError(got) && got == out.size();
}

}  // namespace skerry

#endif  // SKERRY_PATCH_ZSTD_FRAME_H_
