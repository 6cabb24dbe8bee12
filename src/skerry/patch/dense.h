// Method `dense`: all units of a block, their byte planes apart, each plane a zstd frame or raw.
#ifndef SKERRY_PATCH_DENSE_H_
#define SKERRY_PATCH_DENSE_H_

#include "skerry/patch/block.h"

namespace skerry {

// Appends the payload for `values` (whole units, fewer than 2^32). Never longer than the values plus 5 bytes a plane.
void EncodeDense(ByteSpan values, DType dtype, Bytes& out);

// BlockChecksum of a block whose units all are replaced.
uint32_t DenseChecksum(ByteSpan values);

// Decodes a block of `units` units into `changes` (all = true). Untrusted.
Status DecodeDense(ByteSpan payload, uint64_t units, DType dtype, BlockChanges& changes);

}  // namespace skerry

#endif  // SKERRY_PATCH_DENSE_H_
