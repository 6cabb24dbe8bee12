// What others do, re-implemented for a side-by-side run.
#ifndef SKERRY_BENCH_PEERS_H_
#define SKERRY_BENCH_PEERS_H_

#include "skerry/base/bytes.h"

namespace skerry {

// XOR of whole tensors, zstd level 1 (slime, stitch, miles).
Bytes XorZstd(ByteSpan before, ByteSpan after);
void ApplyXorZstd(ByteSpan packed, MutableByteSpan model);

// zstd with the old tensor as a dictionary of matches (`zstd --patch-from`), at the given level.
Bytes ZstdPatchFrom(ByteSpan before, ByteSpan after, int level);

}  // namespace skerry

#endif  // SKERRY_BENCH_PEERS_H_
