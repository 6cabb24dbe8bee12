#include "skerry/patch/sparse_flat.h"

#include "skerry/patch/bit_stream.h"
#include "skerry/patch/gap_model.h"
#include "skerry/patch/rans.h"

namespace skerry {
namespace {

// Stage 1 decodes positions and value ranks without waiting for the old values, which it only asks the cache for; stage
// 2 reads them. `escaped` ranks hold the new bits themselves.
constexpr uint32_t kEscapedRank = ~uint32_t{0};  // ranks below the escape have at most 19 bits

struct Scratch {
  std::vector<uint32_t> ranks;
  std::vector<uint64_t> escaped;
  std::vector<uint16_t> words;
};

// The states of one pair.
struct States {
  uint32_t gap = kRansLow;
  uint32_t value = kRansLow;
};

int PairsFor(uint64_t changed) { return changed >= kTwoPairsFrom ? 2 : 1; }

uint64_t WordAt(ByteSpan bytes, size_t word) {
  const size_t at = word * 8;
  if (at + 8 <= bytes.size()) [[likely]]
    return LoadLe<uint64_t>(bytes.data() + at);
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, bytes.size() - at);
  return value;
}

// New values from ranks, and by how much they move the tensor's digest: changes of one 64-bit word are gathered, and
// its old and new value mixed once. False when a rank is wider than the dtype.
template <typename T>
bool TakeSteps(const Scratch& scratch, bool sign_magnitude, ByteSpan before, uint64_t first_word, BlockChanges& changes,
               RunningDigest& moved) {
  constexpr uint32_t kPerWord = 8 / sizeof(T);
  constexpr int kBits = 8 * sizeof(T);
  const size_t count = scratch.ranks.size();
  changes.values.resize(count * sizeof(T));
  // Everything that the loop touches in locals: it runs for each changed element.
  std::byte* const out = changes.values.data();
  const uint32_t* const positions = changes.positions.data();
  const uint32_t* const ranks = scratch.ranks.data();
  const uint64_t* escaped = scratch.escaped.data();
  RunningDigest sum;
  uint32_t worst = 0;
  for (size_t i = 0; i < count;) {
    const uint32_t word = positions[i] / kPerWord;
    const uint64_t old_word = WordAt(before, word);
    uint64_t new_word = old_word;
    do {
      const int shift = static_cast<int>(positions[i] % kPerWord) * kBits;
      const T old_value = static_cast<T>(old_word >> shift);
      T value = AfterStep(old_value, ranks[i], sign_magnitude);
      if (ranks[i] == kEscapedRank) [[unlikely]] {
        value = static_cast<T>(*escaped++);
      } else {
        worst |= ranks[i];
      }
      new_word ^= static_cast<uint64_t>(static_cast<T>(old_value ^ value)) << shift;
      StoreLe(out + i * sizeof(T), value);
      ++i;
    } while (i < count && positions[i] / kPerWord == word);
    sum += MixWord(first_word + word, new_word) - MixWord(first_word + word, old_word);
  }
  moved += sum;
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
  const int pairs = PairsFor(positions.size());
  States states[2];
  for (size_t i = positions.size(); i-- > 0;) {
    auto& [gap_state, value_state] = states[pairs == 2 ? i & 1 : 0];
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
  for (int p = 0; p < pairs; ++p) {
    writer.Int<uint32_t>(states[p].gap);
    writer.Int<uint32_t>(states[p].value);
  }
  writer.Varint(encoder.words().size());
  writer.Raw(std::as_bytes(encoder.words()));
  writer.Raw(raw);
}

Status DecodeSparseFlat(ByteSpan payload, uint64_t units, uint64_t count, DType dtype, const SymbolTable& value_table,
                        ByteSpan before, uint64_t first_word, BlockChanges& changes, RunningDigest& moved) {
  thread_local Scratch scratch;
  ByteReader reader(payload);
  const int pairs = PairsFor(count);
  States states[2];
  for (int p = 0; p < pairs; ++p) {
    states[p].gap = reader.Int<uint32_t>();
    states[p].value = reader.Int<uint32_t>();
    if (states[p].gap < kRansLow || states[p].value < kRansLow) reader.Fail();
  }
  const uint64_t word_count = reader.Varint();
  if (!reader.ok() || word_count > reader.remaining() / 2) {
    return Fail(Code::kCorrupt, "malformed start of a sparse-flat block");
  }
  ReadWords(reader.Raw(2 * word_count), scratch.words);
  RansDecoder decoder(scratch.words);
  BitReader bits(reader.Raw(reader.remaining()));
  const GapModel gaps = GapModelFor(units, count);
  const SymbolTable& gap_table = *gaps.table;
  const int low_bits = gaps.low_bits;
  const auto unit = static_cast<uint64_t>(DTypeUnit(dtype));

  scratch.ranks.resize(count);
  scratch.escaped.clear();
  changes.all = false;
  changes.positions.resize(count);
  uint32_t* const positions = changes.positions.data();
  uint32_t* const ranks = scratch.ranks.data();
  const std::byte* const old = before.data();
  uint64_t next = 0;
  const auto decode_one = [&](States& pair, uint64_t i) __attribute__((always_inline)) {
    uint64_t quotient = decoder.Get(pair.gap, gap_table);
    if (quotient == kGapEscape) [[unlikely]] {
      uint32_t symbol = 0;
      while ((symbol = decoder.Get(pair.gap, gap_table)) == kGapEscape) {
        quotient += kGapEscape;
        if (quotient > units || !decoder.ok()) return false;
      }
      quotient += symbol;
    }
    const uint32_t value = decoder.Get(pair.value, value_table);
    const uint64_t position = next + (quotient << low_bits) + bits.Get(low_bits);
    if (position >= units || !decoder.ok()) [[unlikely]]
      return false;
    __builtin_prefetch(old + position * unit);
    positions[i] = static_cast<uint32_t>(position);
    next = position + 1;
    if (value < 16) [[likely]] {
      ranks[i] = value;
    } else if (value < kStepEscape) {
      const int exponent = static_cast<int>(value) - 16 + 4;
      ranks[i] = (1u << exponent) + static_cast<uint32_t>(bits.Get(exponent));
    } else {
      ranks[i] = kEscapedRank;
      scratch.escaped.push_back(bits.Get(static_cast<int>(8 * unit)));
    }
    return true;
  };
  bool good = true;
  uint64_t i = 0;
  if (pairs == 2) {
    States even = states[0], odd = states[1];  // in registers
    for (; good && i + 1 < count; i += 2) good = decode_one(even, i) && decode_one(odd, i + 1);
    states[0] = even;
    states[1] = odd;
  }
  for (; good && i < count; ++i) good = decode_one(states[0], i);
  if (!good) return Fail(Code::kCorrupt, "a position is beyond the block's {} units, or the block is cut off", units);
  if (!decoder.AtEnd() || !bits.AtEnd() || states[0].gap != kRansLow || states[0].value != kRansLow ||
      states[1].gap != kRansLow || states[1].value != kRansLow) {
    return Fail(Code::kCorrupt, "a sparse-flat block does not end where its changes end");
  }
  const bool signs = DTypeIsSignMagnitude(dtype);
  const bool fits = unit == 1   ? TakeSteps<uint8_t>(scratch, signs, before, first_word, changes, moved)
                    : unit == 2 ? TakeSteps<uint16_t>(scratch, signs, before, first_word, changes, moved)
                    : unit == 4 ? TakeSteps<uint32_t>(scratch, signs, before, first_word, changes, moved)
                                : TakeSteps<uint64_t>(scratch, signs, before, first_word, changes, moved);
  if (!fits) return Fail(Code::kCorrupt, "a value's step is wider than its dtype {}", DTypeName(dtype));
  return {};
}

}  // namespace skerry
