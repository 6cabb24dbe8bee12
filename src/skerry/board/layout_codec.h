// Layouts travel as zstd frames: the JSON of some ten thousand tensors shrinks about twentyfold.
#ifndef SKERRY_BOARD_LAYOUT_CODEC_H_
#define SKERRY_BOARD_LAYOUT_CODEC_H_

#include <cstdint>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"

namespace skerry {

Result<Bytes> PackLayout(ByteSpan json);

// One whole frame of untrusted bytes. Memory grows with what was really unpacked; more than `limit` bytes, a frame that
// ends early and bytes after it are kCorrupt.
Result<Bytes> UnpackLayout(ByteSpan packed, uint64_t limit);

}  // namespace skerry

#endif  // SKERRY_BOARD_LAYOUT_CODEC_H_
