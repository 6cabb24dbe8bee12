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
  uint32_t used = 0;
  for (const uint64_t count : counts) {
    total += count;
    used += count != 0;
  }
  Frequencies frequencies{};
  const uint64_t share = kProbabilityOne - used;  // what is divided after every symbol got its 1
  uint32_t sum = 0;
  for (int s = 0; s < kSymbols; ++s) {
    if (counts[s] == 0) continue;
    frequencies[s] =
        static_cast<uint16_t>(1 + static_cast<uint64_t>(static_cast<unsigned __int128>(counts[s]) * share / total));
    sum += frequencies[s];
  }
  *std::max_element(frequencies.begin(), frequencies.end()) += static_cast<uint16_t>(kProbabilityOne - sum);
  return frequencies;
}

SymbolTable::Frequencies SymbolTable::NormaliseSample(std::span<const uint64_t, kSymbols> counts) {
  constexpr uint64_t kWeight = 64;  // of a counted symbol against one that was not
  std::array<uint64_t, kSymbols> weighted;
  for (size_t s = 0; s < kSymbols; ++s) weighted[s] = kWeight * counts[s];
  for (const size_t s : {0, 1, kSymbols - 1}) ++weighted[s];
  return Normalise(weighted);
}

void SymbolTable::Serialize(ByteWriter& writer) const {
  int listed = kSymbols - 1;
  while (listed > 0 && frequencies_[listed - 1] == 0) --listed;
  writer.Int<uint8_t>(static_cast<uint8_t>(listed));
  for (int s = 0; s < listed; ++s) writer.Varint(frequencies_[s]);
}

Result<SymbolTable> SymbolTable::Parse(ByteReader& reader) {
  const auto listed = reader.Int<uint8_t>();
  if (listed >= kSymbols) return Fail(Code::kCorrupt, "a frequency table lists {} symbols, more than 31", listed);
  Frequencies frequencies{};
  uint64_t sum = 0;
  for (int s = 0; s < listed; ++s) {
    const uint64_t frequency = reader.Varint();
    if (frequency > kProbabilityOne) return Fail(Code::kCorrupt, "symbol {} has frequency {} of 4096", s, frequency);
    frequencies[s] = static_cast<uint16_t>(frequency);
    sum += frequency;
  }
  if (!reader.ok() || sum > kProbabilityOne) {
    return Fail(Code::kCorrupt, "the frequencies of a table sum to {}, more than 4096", sum);
  }
  frequencies[kSymbols - 1] = static_cast<uint16_t>(kProbabilityOne - sum);
  return SymbolTable(frequencies);
}

}  // namespace skerry
