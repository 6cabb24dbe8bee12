// The weights of a prefix code, themselves coded by finite state entropy (RFC 8878, sections 4.1 and 4.2.1.2).
#ifndef SKERRY_PATCH_WEIGHT_STREAM_H_
#define SKERRY_PATCH_WEIGHT_STREAM_H_

#include <cstdint>
#include <span>

#include "skerry/base/bytes.h"

namespace skerry {

// Appends table and stream of up to 255 weights from 0 to kMaxCodeBits. False, and nothing is written, where they are
// all the same: that can't be coded so.
bool WriteWeightStream(std::span<const uint8_t> weights, Bytes& out);

}  // namespace skerry

#endif  // SKERRY_PATCH_WEIGHT_STREAM_H_
