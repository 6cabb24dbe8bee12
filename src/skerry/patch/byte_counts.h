// How often each byte occurs.
#ifndef SKERRY_PATCH_BYTE_COUNTS_H_
#define SKERRY_PATCH_BYTE_COUNTS_H_

#include <array>
#include <cstdint>

#include "skerry/base/bytes.h"

namespace skerry {

using ByteCounts = std::array<uint32_t, 256>;

ByteCounts CountBytes(ByteSpan bytes);

// Of about `wanted` bytes, or all where they are fewer, spread evenly in lines of 64.
ByteCounts CountSample(ByteSpan bytes, size_t wanted);

// Counts for a prefix code: from a sample, since counting takes as long as coding; but every byte that occurs has a
// count, and of those that don't, only some between others.
ByteCounts CountForCode(ByteSpan bytes);

}  // namespace skerry

#endif  // SKERRY_PATCH_BYTE_COUNTS_H_
