// Codes of 4 bits of which a byte holds two, the lower half first.
#ifndef SKERRY_PATCH_PACKED_CODES_H_
#define SKERRY_PATCH_PACKED_CODES_H_

#include <cstdint>
#include <span>

#include "skerry/base/bytes.h"

namespace skerry {

// Calls note(number of the code, old code, new code) for each code that changed in the bytes at `positions`.
template <typename Note>
void ForChangedCodes(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, Note note) {
  for (const uint32_t position : positions) {
    for (uint32_t half = 0; half < 2; ++half) {
      const auto from = static_cast<uint8_t>(std::to_integer<uint8_t>(before[position]) >> 4 * half & 0xF);
      const auto to = static_cast<uint8_t>(std::to_integer<uint8_t>(after[position]) >> 4 * half & 0xF);
      if (from != to) note(2 * position + half, from, to);
    }
  }
}

}  // namespace skerry

#endif  // SKERRY_PATCH_PACKED_CODES_H_
