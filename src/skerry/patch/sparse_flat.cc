#include "skerry/patch/sparse_flat.h"

#include "skerry/patch/bit_stream.h"
#include "skerry/patch/gap_model.h"
#include "skerry/patch/rans.h"

namespace skerry {
namespace {

// Stage 1 decodes positions and value ranks without waiting for the old values, which it only asks the cache for; stage
// 2 reads them. `escaped` ranks hold the new bits themselves.
constexpr uint64_t kEscapedRank = ~uint64_t{0};

struct Scratch {
  std::vector<uint64_t> ranks;
  std::vector<uint64_t> escaped;
};

template <typename T>
bool TakeSteps(const Scratch& scratch, bool sign_magnitude, ByteSpan before, BlockChanges& changes) {
  changes.values.resize(scratch.ranks.size() * sizeof(T));
  std::byte* out = changes.values.data();
  const uint64_t* escaped = scratch.escaped.data();
  uint64_t worst = 0;
  for (size_t i = 0; i < scratch.ranks.size(); ++i) {
    const uint64_t rank = scratch.ranks[i];
    T value;
    if (rank == kEscapedRank) [[unlikely]] {
      value = static_cast<T>(*escaped++);
    } else {
      worst |= rank;
      value = AfterStep(LoadLe<T>(before.data() + size_t{changes.positions[i]} * sizeof(T)), rank, sign_magnitude);
    }
    StoreLe(out, value);
    out += sizeof(T);
  }
  return worst <= std::numeric_limits<T>::max();
}

}  // namespace

void EncodeSparseFlat(uint64_t units, std::span<const uint32_t> positions, std::span<const StepToken> tokens,
                      const SymbolTable& value_table, Bytes& out) {
  const GapModel gaps = GapModelFor(units, positions.size());
  // Raw bits go forward in decoding order, symbols backward.
  thread_local Bytes raw;
  thread_local std::vector<uint32_t> quotients;
  thread_local std::vector<uint16_t> words;
  raw.clear();
  quotients.resize(positions.size());
  BitWriter bits(raw);
  uint32_t next = 0;  // the lowest position that may change
  size_t symbols = 2 * positions.size();
  const uint32_t low_mask = (1u << gaps.low_bits) - 1;
  for (size_t i = 0; i < positions.size(); ++i) {
    const uint32_t gap = positions[i] - next;
    bits.Put(gap & low_mask, gaps.low_bits);
    if (tokens[i].extra_bits != 0) bits.Put(tokens[i].extra, tokens[i].extra_bits);
    quotients[i] = gap >> gaps.low_bits;
    symbols += quotients[i] / kGapEscape;
    next = positions[i] + 1;
  }
  bits.Finish();

  words.resize(symbols + 1);
  RansEncoder encoder(words);
  uint32_t gap_state = kRansLow, value_state = kRansLow;
  for (size_t i = positions.size(); i-- > 0;) {
    encoder.Put(value_state, value_table, tokens[i].symbol);
    uint32_t quotient = quotients[i];
    if (quotient >= kGapEscape) [[unlikely]] {
      encoder.Put(gap_state, *gaps.table, quotient % kGapEscape);
      for (uint32_t n = quotient / kGapEscape; n > 0; --n) encoder.Put(gap_state, *gaps.table, kGapEscape);
    } else {
      encoder.Put(gap_state, *gaps.table, quotient);
    }
  }

  ByteWriter writer(out);
  writer.Int<uint32_t>(gap_state);
  writer.Int<uint32_t>(value_state);
  writer.Varint(encoder.words().size());
  writer.Raw(std::as_bytes(encoder.words()));
  writer.Raw(raw);
}

Status DecodeSparseFlat(ByteSpan payload, uint64_t units, uint64_t count, DType dtype, const SymbolTable& value_table,
                        ByteSpan before, BlockChanges& changes) {
  ByteReader reader(payload);
  auto gap_state = reader.Int<uint32_t>();
  auto value_state = reader.Int<uint32_t>();
  const uint64_t word_count = reader.Varint();
  if (!reader.ok() || word_count > reader.remaining() / 2 || gap_state < kRansLow || value_state < kRansLow) {
    return Fail(Code::kCorrupt, "malformed start of a sparse-flat block");
  }
  thread_local std::vector<uint16_t> words;
  ReadWords(reader.Raw(2 * word_count), words);
  RansDecoder decoder(words);
  BitReader bits(reader.Raw(reader.remaining()));
  const GapModel gaps = GapModelFor(units, count);
  const SymbolTable& gap_table = *gaps.table;
  const int low_bits = gaps.low_bits;
  const int unit = DTypeUnit(dtype);

  thread_local Scratch scratch;
  scratch.ranks.resize(count);
  scratch.escaped.clear();
  changes.all = false;
  changes.positions.resize(count);
  uint32_t* const positions = changes.positions.data();
  uint64_t* const ranks = scratch.ranks.data();
  const std::byte* const old = before.data();
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t quotient = decoder.Get(gap_state, gap_table);
    if (quotient == kGapEscape) [[unlikely]] {
      uint32_t symbol = 0;
      while ((symbol = decoder.Get(gap_state, gap_table)) == kGapEscape) {
        quotient += kGapEscape;
        if (quotient > units || !decoder.ok()) return Fail(Code::kCorrupt, "a gap is longer than its block");
      }
      quotient += symbol;
    }
    const uint32_t value = decoder.Get(value_state, value_table);
    const uint64_t position = next + (quotient << low_bits) + bits.Get(low_bits);
    if (position >= units || !decoder.ok()) [[unlikely]] {
      return Fail(Code::kCorrupt, "position {} is beyond the block's {} units, or the block is cut off", position, units);
    }
    __builtin_prefetch(old + position * static_cast<uint64_t>(unit));
    positions[i] = static_cast<uint32_t>(position);
    next = position + 1;
    if (value < 16) [[likely]] {
      ranks[i] = value;
    } else if (value < kStepEscape) {
      const int exponent = static_cast<int>(value) - 16 + 4;
      ranks[i] = (1ull << exponent) + bits.Get(exponent);
    } else {
      ranks[i] = kEscapedRank;
      scratch.escaped.push_back(bits.Get(8 * unit));
    }
  }
  if (!decoder.AtEnd() || !bits.AtEnd() || gap_state != kRansLow || value_state != kRansLow) {
    return Fail(Code::kCorrupt, "a sparse-flat block does not end where its changes end");
  }
  const bool sign_magnitude = DTypeIsSignMagnitude(dtype);
  const bool fits = unit == 1   ? TakeSteps<uint8_t>(scratch, sign_magnitude, before, changes)
                    : unit == 2 ? TakeSteps<uint16_t>(scratch, sign_magnitude, before, changes)
                    : unit == 4 ? TakeSteps<uint32_t>(scratch, sign_magnitude, before, changes)
                                : TakeSteps<uint64_t>(scratch, sign_magnitude, before, changes);
  if (!fits) return Fail(Code::kCorrupt, "a value's step is wider than its dtype {}", DTypeName(dtype));
  return {};
}

}  // namespace skerry
