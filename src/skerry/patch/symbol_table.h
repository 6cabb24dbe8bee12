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

  // Scales counts so that they sum to 4096 and every symbol keeps at least 1: any symbol can be coded.
  static Frequencies Normalise(std::span<const uint64_t, kSymbols> counts);

  uint32_t frequency(int symbol) const { return frequencies_[symbol]; }
  uint32_t start(int symbol) const { return starts_[symbol]; }
  const Frequencies& frequencies() const { return frequencies_; }

  // What the decoder needs at slot x mod 4096, in one 32-bit load: frequency - 1 (12 bits), slot - start (12), symbol (5).
  uint32_t slot(uint32_t x) const { return slots_[x & (kProbabilityOne - 1)]; }
  static uint32_t SlotFrequency(uint32_t slot) { return (slot & 0xFFF) + 1; }
  static uint32_t SlotOffset(uint32_t slot) { return (slot >> 12) & 0xFFF; }
  static uint32_t SlotSymbol(uint32_t slot) { return slot >> 24; }

  // The serialised form in a patch: count of symbols up to the last used one, then a varint a frequency.
  void Serialize(ByteWriter& writer) const;
  static Result<SymbolTable> Parse(ByteReader& reader);

 private:
  Frequencies frequencies_;
  std::array<uint16_t, kSymbols> starts_;
  std::array<uint32_t, kProbabilityOne> slots_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_SYMBOL_TABLE_H_
