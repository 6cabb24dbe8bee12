// Static frequency tables of the entropy coder: 32 symbols whose frequencies sum to 4096.
#ifndef SKERRY_PATCH_SYMBOL_TABLE_H_
#define SKERRY_PATCH_SYMBOL_TABLE_H_

#include <array>
#include <cstdint>
#include <span>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"

namespace skerry {

inline constexpr int kSymbols = 32;
inline constexpr int kProbabilityBits = 12;
inline constexpr uint32_t kProbabilityOne = 1u << kProbabilityBits;

class SymbolTable {
 public:
  using Frequencies = std::array<uint16_t, kSymbols>;

  // The frequencies sum to 4096; a symbol of frequency 0 cannot be coded and is never decoded.
  explicit SymbolTable(const Frequencies& frequencies);

  // Scales counts, not all zero, so that they sum to 4096 and every symbol that was counted keeps at least 1.
  static Frequencies Normalise(std::span<const uint64_t, kSymbols> counts);

  // The same for symbols of value steps, from a sample of them: also the likeliest ones and the escape, so that
  // whatever the sample missed can be coded.
  static Frequencies NormaliseSample(std::span<const uint64_t, kSymbols> counts);

  uint32_t frequency(uint32_t symbol) const { return frequencies_[symbol]; }
  uint32_t start(uint32_t symbol) const { return starts_[symbol]; }
  const Frequencies& frequencies() const { return frequencies_; }
  // floor(x / frequency(symbol)) for a 32-bit x, by one multiplication: the encoder's inner loop.
  uint32_t Divide(uint32_t x, int symbol) const {
    const Reciprocal& r = reciprocals_[symbol];
    return static_cast<uint32_t>((static_cast<unsigned __int128>(x) * r.factor) >> 64) + r.addend * x;
  }

  // The decoder's look-up: the symbol at x mod 4096. One byte a slot keeps two tables and the data in the first-level
  // cache.
  uint32_t SymbolAt(uint32_t x) const { return symbols_[x & (kProbabilityOne - 1)]; }

  // The serialised form in a patch: the number of symbols up to the last used one before 31, then a varint a frequency;
  // symbol 31, the escape of value tables, has the rest.
  void Serialize(ByteWriter& writer) const;
  static Result<SymbolTable> Parse(ByteReader& reader);

 private:
  // factor = floor(2^64 / f) + 1 is exact for every 32-bit x and f <= 4096; for f = 1, where it would not fit, the
  // quotient is x itself.
  struct Reciprocal {
    uint64_t factor = 0;
    uint32_t addend = 0;
  };

  Frequencies frequencies_;
  std::array<Reciprocal, kSymbols> reciprocals_{};
  std::array<uint16_t, kSymbols> starts_;
  std::array<uint8_t, kProbabilityOne> symbols_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_SYMBOL_TABLE_H_
