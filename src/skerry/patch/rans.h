// Range asymmetric numeral systems (J. Duda, "Asymmetric numeral systems", arXiv:1311.2540) with 32-bit states, 16-bit
// words and 12-bit probabilities. Several states, for gaps and for values, share a
// stream of words.
#ifndef SKERRY_PATCH_RANS_H_
#define SKERRY_PATCH_RANS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/patch/symbol_table.h"

namespace skerry {

inline constexpr uint32_t kRansLow = 1u << 16;  // states stay in [2^16, 2^32)
inline constexpr size_t kRansPadding = 4;       // words

// The encoder runs over the symbols last to first and writes words into a buffer from its end to its beginning, so that
// they stand there in decoding order. The buffer must have room for one word a symbol, and one more. Renormalisation is
// free of branches: whether a word is due is as good as random.
class RansEncoder {
 public:
  explicit RansEncoder(std::vector<uint16_t>& buffer) : end_(buffer.data() + buffer.size()), next_(end_ - 1) {}

  void Put(uint32_t& state, const SymbolTable& table, uint32_t symbol) {
    const uint32_t frequency = table.frequency(symbol);
    const bool full = state >= static_cast<uint64_t>(frequency) << (32 - kProbabilityBits);
    *next_ = static_cast<uint16_t>(state);
    next_ -= full;
    state >>= 16 * static_cast<int>(full);
    const uint32_t quotient = table.Divide(state, symbol);
    state = (quotient << kProbabilityBits) + (state - quotient * frequency) + table.start(symbol);
  }

  std::span<const uint16_t> words() const { return {next_ + 1, end_}; }

 private:
  uint16_t* const end_;
  uint16_t* next_;
};

// The decoder runs first to last. It may look a few words past the last one, so the buffer is padded
// (see ReadWords).
class RansDecoder {
 public:
  explicit RansDecoder(std::span<const uint16_t> padded_words)
      : next_(padded_words.data()), end_(padded_words.data() + padded_words.size() - kRansPadding) {}

  uint32_t Get(uint32_t& state, const SymbolTable& table) {
    const uint32_t symbol = table.SymbolAt(state);
    state =
        table.frequency(symbol) * (state >> kProbabilityBits) + (state & (kProbabilityOne - 1)) - table.start(symbol);
    const bool low = state < kRansLow;
    const uint32_t refilled = state << 16 | *next_;
    state = low ? refilled : state;
    next_ += low;
    return symbol;
  }

  // False once more words were taken than there are; check it at least once every other symbol.
  bool ok() const { return next_ <= end_; }
  bool AtEnd() const { return next_ == end_; }

 private:
  const uint16_t* next_;
  const uint16_t* const end_;
};

// Words from a payload, with the decoder's padding behind them.
inline void ReadWords(ByteSpan bytes, std::vector<uint16_t>& padded) {
  padded.resize(bytes.size() / 2 + kRansPadding);
  if (!bytes.empty()) std::memcpy(padded.data(), bytes.data(), bytes.size());
  std::fill_n(padded.end() - kRansPadding, kRansPadding, uint16_t{0});
}

}  // namespace skerry

#endif  // SKERRY_PATCH_RANS_H_
