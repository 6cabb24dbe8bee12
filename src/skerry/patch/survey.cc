#include "skerry/patch/survey.h"

#include <numeric>

#include "skerry/patch/entropy.h"
#include "skerry/patch/packed_codes.h"

namespace skerry {
namespace {

// What a magnitude model takes in the patch, about: U8 needs none, and gets one where it saves more.
constexpr double kModelBits = 64;

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
  counts.units += before.size() / static_cast<size_t>(DTypeUnit(dtype));
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
    counts.magnitudes->AddChange(from, CodeTokenOf(from, to, counts.magnitudes->view().has_sign()));
  });
}

// Of the sample's changes as `sparse-flat`.
double Survey::Counts::FlatBits() const {
  const auto changed = static_cast<double>(std::accumulate(symbols.begin(), symbols.end(), uint64_t{0}));
  double bits = PositionBits(changed, static_cast<double>(units));
  for (uint32_t s = 0; s < kSymbols; ++s) {
    const auto count = static_cast<double>(symbols[s]);
    if (count > 0) bits += count * (std::log2(changed / count) + StepExtraBits(s));
  }
  return bits;
}

bool Survey::Counts::CodesPay() const {
  return magnitudes->BitsOfOneClass() + kModelBits / static_cast<double>(stride) < FlatBits();
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
    if (!counts.magnitudes) continue;
    if (dtype == DType::kU8 && !counts.CodesPay()) continue;
    models.emplace(dtype, counts.magnitudes->Choose(counts.stride));
  }
  return models;
}

}  // namespace skerry
