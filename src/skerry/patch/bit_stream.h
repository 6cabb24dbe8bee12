// Raw bits beside the entropy coder: least significant bit first.
#ifndef SKERRY_PATCH_BIT_STREAM_H_
#define SKERRY_PATCH_BIT_STREAM_H_

#include <cstdint>

#include "skerry/base/bytes.h"

namespace skerry {

class BitWriter {
 public:
  explicit BitWriter(Bytes& out) : out_(out) {}

  // The low `count` (0 to 64) bits of `bits`; higher ones must be zero.
  void Put(uint64_t bits, int count) {
    if (count > 32) {
      Put(bits & 0xFFFFFFFF, 32);
      bits >>= 32;
      count -= 32;
    }
    buffer_ |= bits << filled_;
    filled_ += count;
    while (filled_ >= 8) {
      out_.push_back(static_cast<std::byte>(buffer_));
      buffer_ >>= 8;
      filled_ -= 8;
    }
  }
  // Pads the last byte with zero bits.
  void Finish() {
    if (filled_ > 0) out_.push_back(static_cast<std::byte>(buffer_));
    buffer_ = 0;
    filled_ = 0;
  }

 private:
  Bytes& out_;
  uint64_t buffer_ = 0;
  int filled_ = 0;
};

// Reads what BitWriter wrote. Past the end it returns zeros; AtEnd() tells whether exactly the written bits were read.
class BitReader {
 public:
  explicit BitReader(ByteSpan in) : in_(in) {}

  uint64_t Get(int count) {
    if (count > 32) {
      const uint64_t low = Get(32);
      return low | Get(count - 32) << 32;
    }
    const uint64_t byte = at_ >> 3;
    uint64_t word = 0;
    if (byte + 8 <= in_.size()) [[likely]] {
      word = LoadLe<uint64_t>(in_.data() + byte);
    } else if (byte < in_.size()) {
      std::memcpy(&word, in_.data() + byte, in_.size() - byte);
    }
    word >>= at_ & 7;
    at_ += static_cast<uint64_t>(count);
    return word & ((1ull << count) - 1);
  }

  bool AtEnd() const {
    if ((at_ + 7) / 8 != in_.size()) return false;
    const int used = static_cast<int>(at_ & 7);
    return used == 0 || std::to_integer<int>(in_.back()) >> used == 0;
  }

 private:
  ByteSpan in_;
  uint64_t at_ = 0;  // bits
};

}  // namespace skerry

#endif  // SKERRY_PATCH_BIT_STREAM_H_
