// Prefix codes of bytes as zstd writes them (RFC 8878, section 4.2.1): how long each byte's code is.
#ifndef SKERRY_PATCH_HUFFMAN_CODE_H_
#define SKERRY_PATCH_HUFFMAN_CODE_H_

#include <array>
#include <cstdint>

#include "skerry/base/bytes.h"
#include "skerry/patch/byte_counts.h"

namespace skerry {

inline constexpr int kMaxCodeBits = 11;

struct HuffmanCode {
  std::array<uint8_t, 256> bits{};   // 0: the byte has no code
  std::array<uint16_t, 256> code{};  // its bits, the first one highest
  int longest = 0;                   // in bits, at most kMaxCodeBits
  int last = 0;                      // the greatest byte that has a code

  // The RFC's weights, which rise as codes get shorter.
  uint8_t Weight(int byte) const {
    return bits[byte] == 0 ? uint8_t{0} : static_cast<uint8_t>(longest + 1 - bits[byte]);
  }
};

// A complete code for the bytes whose count is not 0; there must be two of them.
HuffmanCode MakeHuffmanCode(const ByteCounts& counts);

// Appends the code's description to `out`. False, and nothing is written, where the RFC has none: bytes above 128 have
// codes, and the weights are all the same or far too many.
bool WriteHuffmanCode(const HuffmanCode& code, Bytes& out);

}  // namespace skerry

#endif  // SKERRY_PATCH_HUFFMAN_CODE_H_
