// Range asymmetric numeral systems (J. Duda, "Asymmetric numeral systems", arXiv:1311.2540) with 32-bit states, 16-bit
// words and 12-bit probabilities. Two states, one for gaps and one for values, share a stream of words.
#ifndef SKERRY_PATCH_RANS_H_
#define SKERRY_PATCH_RANS_H_

#include <cstdint>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/patch/symbol_table.h"

namespace skerry {

inline constexpr uint32_t kRansLow = 1u << 16;  // states stay in [2^16, 2^32)

// The encoder runs over the symbols last to first and collects the words in reverse.
class RansEncoder {
 public:
  explicit RansEncoder(std::vector<uint16_t>& reversed_words) : words_(reversed_words) {}

  void Put(uint32_t& state, const SymbolTable& table, int symbol) {
    const uint32_t frequency = table.frequency(symbol);
    if (state >= static_cast<uint64_t>(frequency) << (32 - kProbabilityBits)) {
      words_.push_back(static_cast<uint16_t>(state));
      state >>= 16;
    }
    state = (state / frequency << kProbabilityBits) + state % frequency + table.start(symbol);
  }

 private:
  std::vector<uint16_t>& words_;
};

// The decoder runs first to last. Reading past the last word makes it fail for good; ok() says so.
class RansDecoder {
 public:
  RansDecoder(const std::byte* words, size_t count) : next_(words), end_(words + 2 * count) {}

  uint32_t Get(uint32_t& state, const SymbolTable& table) {
    const uint32_t slot = table.slot(state);
    state = SymbolTable::SlotFrequency(slot) * (state >> kProbabilityBits) + SymbolTable::SlotOffset(slot);
    if (state < kRansLow) {
      if (next_ == end_) [[unlikely]] {
        ok_ = false;
        state = kRansLow;
      } else {
        state = state << 16 | LoadLe<uint16_t>(next_);
        next_ += 2;
      }
    }
    return SymbolTable::SlotSymbol(slot);
  }

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && next_ == end_; }

 private:
  const std::byte* next_;
  const std::byte* end_;
  bool ok_ = true;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_RANS_H_
