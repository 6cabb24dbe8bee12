#include "skerry/patch/survey.h"

#include "skerry/patch/packed_codes.h"

namespace skerry {
namespace {

// Calls note(old bits, token) for the changed units of a cell.
template <typename T, typename Note>
void ForChanges(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions, bool sign_magnitude, Note note) {
  for (const uint32_t position : positions) {
    const T old_bits = LoadLe<T>(before.data() + size_t{position} * sizeof(T));
    const T new_bits = LoadLe<T>(after.data() + size_t{position} * sizeof(T));
    note(old_bits, TokenOf(old_bits, new_bits, sign_magnitude));
  }
}

}  // namespace

void Survey::Expect(DType dtype, uint64_t stride) {
  Counts& counts = counts_[dtype];
  counts.stride = stride;
  if (const auto view = MagnitudeViewOf(dtype); view && magnitudes_) counts.magnitudes.emplace(*view);
}

void Survey::AddCell(DType dtype, ByteSpan before, ByteSpan after, std::span<const uint32_t> positions) {
  Counts& counts = counts_.at(dtype);
  const bool magnitudes = counts.magnitudes.has_value();
  const bool codes = magnitudes && counts.magnitudes->view().bits == 4;
  if (magnitudes) counts.magnitudes->AddMembers(before);
  const auto note = [&](uint64_t old_bits, const StepToken& token) {
    ++counts.symbols[token.symbol];
    if (magnitudes && !codes) counts.magnitudes->AddChange(old_bits, token);
  };
  const bool signs = DTypeIsSignMagnitude(dtype);
  switch (DTypeUnit(dtype)) {
    case 1: ForChanges<uint8_t>(before, after, positions, signs, note); break;
    case 2: ForChanges<uint16_t>(before, after, positions, signs, note); break;
    case 4: ForChanges<uint32_t>(before, after, positions, signs, note); break;
    default: ForChanges<uint64_t>(before, after, positions, signs, note);
  }
  if (!codes) return;
  ForChangedCodes(before, after, positions, [&](uint32_t, uint8_t from, uint8_t to) {
    counts.magnitudes->AddChange(from, CodeTokenOf(from, to));
  });
}

ValueTables Survey::Values() const {
  ValueTables tables;
  for (const auto& [dtype, counts] : counts_) {
    tables.emplace(dtype, SymbolTable(SymbolTable::NormaliseSample(counts.symbols)));
  }
  return tables;
}

MagnitudeModels Survey::Magnitudes() const {
  MagnitudeModels models;
  for (const auto& [dtype, counts] : counts_) {
    if (counts.magnitudes) models.emplace(dtype, counts.magnitudes->Choose(counts.stride));
  }
  return models;
}

}  // namespace skerry
