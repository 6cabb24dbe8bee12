#include "skerry/patch/block_encoder.h"

#include <array>
#include <cmath>

#include "skerry/patch/dense.h"
#include "skerry/patch/entropy.h"
#include "skerry/patch/packed_codes.h"
#include "skerry/patch/sparse_flat.h"

namespace skerry {
namespace {

// A dense block is tried where the sparse one is longer than this part of the raw bytes.
constexpr uint64_t kDenseWorthTrying = 3;

// What the header of a sparse-magnitude block costs more, for each class.
constexpr double kBitsPerCount = 10;

using SymbolCounts = std::array<uint32_t, kSymbols>;

// Bits of so many symbols, with the raw bits that follow the escapes of symbols which the table lacks.
double StepBits(const SymbolCounts& counts, const SymbolTable& table, int value_bits) {
  double bits = 0;
  for (uint32_t s = 0; s < kSymbols; ++s) {
    if (counts[s] == 0) continue;
    const uint32_t frequency = table.frequency(s);
    const bool escaped = frequency == 0 || s == kStepEscape;
    const int extra_bits = escaped ? value_bits : StepExtraBits(s);
    bits += counts[s] * (kProbabilityBits - std::log2(table.frequency(escaped ? kStepEscape : s)) + extra_bits);
  }
  return bits;
}

uint64_t LoadUnit(const std::byte* at, size_t unit) {
  uint64_t value = 0;
  std::memcpy(&value, at, unit);
  return value;
}

}  // namespace

void BlockEncoder::Begin(DType dtype, const SymbolTable* values, const MagnitudeModel* magnitudes) {
  dtype_ = dtype;
  values_ = values;
  magnitudes_ = magnitudes;
  units_ = 0;
  changes_.unit = DTypeUnit(dtype);
  changes_.all = false;
  changes_.positions.clear();
  changes_.values.clear();
  tokens_.clear();
  classed_.Clear();
}

template <typename T>
RunningDigest BlockEncoder::TakeCell(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions,
                                     uint64_t first_word) {
  constexpr uint32_t kPerWord = 8 / sizeof(T);
  const bool sign_magnitude = DTypeIsSignMagnitude(dtype_);
  const size_t count = positions.size(), had = tokens_.size();
  changes_.positions.resize(had + count);
  changes_.values.resize((had + count) * sizeof(T));
  tokens_.resize(had + count);
  uint32_t* position_out = changes_.positions.data() + had;
  std::byte* value_out = changes_.values.data() + had * sizeof(T);
  StepToken* token_out = tokens_.data() + had;
  const auto offset = static_cast<uint32_t>(units_);
  RunningDigest moved;
  uint32_t last_word = ~0u;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t position = positions[i];
    const T old_bits = LoadLe<T>(before.data() + size_t{position} * sizeof(T));
    const T new_bits = LoadLe<T>(after.data() + size_t{position} * sizeof(T));
    position_out[i] = offset + position;
    StoreLe(value_out + i * sizeof(T), new_bits);
    token_out[i] = TokenOf(old_bits, new_bits, sign_magnitude);
    const uint32_t word = position / kPerWord;
    if (word == last_word) continue;
    last_word = word;
    moved += MixWord(first_word + word, WordAt(after, word)) - MixWord(first_word + word, WordAt(before, word));
  }
  return moved;
}

// Numbers the changed elements of the cell within their classes.
void BlockEncoder::Classify(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions) {
  const MagnitudeClasses& classes = magnitudes_->classes();
  const bool codes = classes.view().bits == 4;
  rows_.resize(RowsBytes(ElementsIn(before, classes.view()), classes.count()) + kRowSlack);
  ClassCounts first = classed_.members;
  CountMembers(before, classes, rows_.data(), classed_.members);
  if (positions.empty()) return;
  const size_t had = classed_.tokens.size();
  if (codes) {
    codes_.clear();
    ForChangedCodes(before, after, positions, [&](uint32_t code, uint8_t from, uint8_t to) {
      codes_.push_back(code);
      classed_.tokens.push_back(CodeTokenOf(from, to, classes.view().has_sign()));
    });
    positions = codes_;
  } else {
    classed_.tokens.insert(classed_.tokens.end(), tokens_.end() - static_cast<ptrdiff_t>(positions.size()),
                           tokens_.end());
  }
  classed_.class_of.resize(had + positions.size());
  classed_.number_of.resize(had + positions.size());
  NumberMembers(before, classes, rows_.data(), positions, first, classed_.class_of.data() + had,
                classed_.number_of.data() + had);
  for (size_t i = 0; i < positions.size(); ++i) {
    StepToken& token = classed_.tokens[had + i];
    const SymbolTable& table = magnitudes_->values(classed_.class_of[had + i]);
    if (table.frequency(token.symbol) != 0) [[likely]]
      continue;
    const size_t at = codes ? positions[i] / 2 : positions[i] * static_cast<size_t>(changes_.unit);
    uint64_t bits = LoadUnit(after.data() + at, static_cast<size_t>(changes_.unit));
    if (codes) bits = bits >> positions[i] % 2 * 4 & 0xF;
    token = EscapedToken(bits, classes.view().bits);
  }
}

RunningDigest BlockEncoder::AddCell(ByteSpan before, ByteSpan after, std::span<const uint32_t> positions,
                                    uint64_t first_word) {
  RunningDigest moved;
  switch (changes_.unit) {
    case 1: moved = TakeCell<uint8_t>(before, after, positions, first_word); break;
    case 2: moved = TakeCell<uint16_t>(before, after, positions, first_word); break;
    case 4: moved = TakeCell<uint32_t>(before, after, positions, first_word); break;
    default: moved = TakeCell<uint64_t>(before, after, positions, first_word);
  }
  if (magnitudes_ != nullptr) Classify(before, after, positions);
  units_ += before.size() / static_cast<size_t>(changes_.unit);
  return moved;
}

double BlockEncoder::FlatBits() const {
  SymbolCounts counts{};
  for (const StepToken& token : tokens_) ++counts[token.symbol];
  return PositionBits(static_cast<double>(tokens_.size()), static_cast<double>(units_)) +
         StepBits(counts, *values_, 8 * changes_.unit);
}

double BlockEncoder::MagnitudeBits() const {
  std::array<SymbolCounts, kMaxClasses> counts{};
  std::array<uint32_t, kMaxClasses> changed{};
  for (size_t i = 0; i < classed_.tokens.size(); ++i) {
    ++counts[classed_.class_of[i]][classed_.tokens[i].symbol];
    ++changed[classed_.class_of[i]];
  }
  double bits = 0;
  for (int c = 0; c < magnitudes_->classes().count(); ++c) {
    const auto at = static_cast<size_t>(c);
    bits += kBitsPerCount + PositionBits(changed[at], classed_.members[at]) +
            StepBits(counts[at], magnitudes_->values(c), magnitudes_->classes().view().bits);
  }
  return bits;
}

Result<EncodedBlock> BlockEncoder::Close(const std::function<Result<Bytes>()>& read_after) {
  const auto unit = static_cast<uint64_t>(changes_.unit);
  EncodedBlock block;
  block.entry.changed = static_cast<uint32_t>(changed());
  if (magnitudes_ != nullptr && MagnitudeBits() < FlatBits()) {
    block.entry.method = Method::kSparseMagnitude;
    EncodeSparseMagnitude(*magnitudes_, classed_, block.payload);
  } else {
    block.entry.method = Method::kSparseFlat;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (values_->frequency(tokens_[i].symbol) != 0) [[likely]]
        continue;
      tokens_[i] = EscapedToken(LoadUnit(changes_.values.data() + i * unit, unit), 8 * changes_.unit);
    }
    EncodeSparseFlat(units_, changes_.positions, tokens_, *values_, block.payload);
  }
  if (block.payload.size() > units_ * unit / kDenseWorthTrying) {
    SKERRY_ASSIGN(const Bytes after, read_after());
    EncodedBlock whole = Whole(dtype_, after);
    if (whole.payload.size() < block.payload.size()) {
      whole.entry.changed = block.entry.changed;
      Begin(dtype_, values_, magnitudes_);
      return whole;
    }
  }
  block.entry.checksum = BlockChecksum(changes_);
  Begin(dtype_, values_, magnitudes_);
  return block;
}

EncodedBlock BlockEncoder::Whole(DType dtype, ByteSpan after) {
  EncodedBlock block;
  block.entry.method = Method::kDense;
  block.entry.changed = static_cast<uint32_t>(after.size() / static_cast<size_t>(DTypeUnit(dtype)));
  block.entry.checksum = DenseChecksum(after);
  EncodeDense(after, dtype, block.payload);
  return block;
}

}  // namespace skerry
