// One zstd frame at a time, in libzstd's fastest way with matches; and back, from untrusted bytes.
#ifndef SKERRY_PATCH_ZSTD_FRAME_H_
#define SKERRY_PATCH_ZSTD_FRAME_H_

#include "skerry/base/bytes.h"

namespace skerry {

// Appends `raw` as one frame, at level 1. Contexts are kept by each thread: to make one takes longer than a small
// frame.
void CompressFrame(ByteSpan raw, Bytes& out);

// Fills `out` exactly from `packed`, which must be one frame and nothing else: ZSTD_decompress alone would go on over
// further and skippable frames.
bool DecompressFrame(ByteSpan packed, MutableByteSpan out);

}  // namespace skerry

#endif  // SKERRY_PATCH_ZSTD_FRAME_H_
