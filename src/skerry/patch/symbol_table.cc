#include "skerry/patch/symbol_table.h"

#include <algorithm>

namespace skerry {

SymbolTable::SymbolTable(const Frequencies& frequencies) : frequencies_(frequencies) {
  uint32_t at = 0;
  for (int s = 0; s < kSymbols; ++s) {
    starts_[s] = static_cast<uint16_t>(at);
    if (frequencies_[s] == 1) reciprocals_[s].addend = 1;
    if (frequencies_[s] > 1) reciprocals_[s].factor = ~uint64_t{0} / frequencies_[s] + 1;
    for (uint32_t i = 0; i < frequencies_[s]; ++i) symbols_[at++] = static_cast<uint8_t>(s);
  }
}

SymbolTable::Frequencies SymbolTable::Normalise(std::span<const uint64_t, kSymbols> counts) {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  Frequencies frequencies;
  constexpr uint64_t kShare = kProbabilityOne - kSymbols;  // what is divided after every symbol got its 1
  uint32_t sum = 0;
  for (int s = 0; s < kSymbols; ++s) {
    const auto share =
        total == 0 ? 0 : static_cast<uint64_t>(static_cast<unsigned __int128>(counts[s]) * kShare / total);
    frequencies[s] = static_cast<uint16_t>(1 + share);
    sum += frequencies[s];
  }
  *std::max_element(frequencies.begin(), frequencies.end()) += static_cast<uint16_t>(kProbabilityOne - sum);
  return frequencies;
}

void SymbolTable::Serialize(ByteWriter& writer) const {
  int used = kSymbols;
  while (used > 1 && frequencies_[used - 1] == 0) --used;
  writer.Int<uint8_t>(static_cast<uint8_t>(used));
  for (int s = 0; s < used; ++s) writer.Varint(frequencies_[s]);
}

Result<SymbolTable> SymbolTable::Parse(ByteReader& reader) {
  const auto used = reader.Int<uint8_t>();
  if (used < 1 || used > kSymbols) return Fail(Code::kCorrupt, "a frequency table has {} symbols, not 1 to 32", used);
  Frequencies frequencies{};
  uint64_t sum = 0;
  for (int s = 0; s < used; ++s) {
    const uint64_t frequency = reader.Varint();
    if (frequency > kProbabilityOne) return Fail(Code::kCorrupt, "symbol {} has frequency {} of 4096", s, frequency);
    frequencies[s] = static_cast<uint16_t>(frequency);
    sum += frequency;
  }
  if (!reader.ok() || sum != kProbabilityOne) {
    return Fail(Code::kCorrupt, "the frequencies of a table sum to {}, not 4096", sum);
  }
  return SymbolTable(frequencies);
}

}  // namespace skerry
