// zstd frames (RFC 8878) without sequences: bytes that repeat nothing longer than themselves, as the exponents of
// weights do, packed by a prefix code alone. libzstd's encoder looks for matches first, finds short ones that cost more
// than they save, and takes several times as long; its decoder is as fast as any.
#ifndef SKERRY_PATCH_HUFFMAN_FRAME_H_
#define SKERRY_PATCH_HUFFMAN_FRAME_H_

#include "skerry/base/bytes.h"

namespace skerry {

// Appends one frame that states its size. Never longer than the bytes, 9 more, and 3 more for each 128 KiB.
// `bytes` are fewer than 2^32.
void EncodeHuffmanFrame(ByteSpan bytes, Bytes& out);

}  // namespace skerry

#endif  // SKERRY_PATCH_HUFFMAN_FRAME_H_
