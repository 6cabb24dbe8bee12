#include "skerry/patch/change_stream.h"

#include "skerry/patch/bit_stream.h"
#include "skerry/patch/format.h"
#include "skerry/patch/gap_model.h"
#include "skerry/patch/rans.h"

namespace skerry {
namespace {

// The states of one pair.
struct States {
  uint32_t gap = kRansLow;
  uint32_t value = kRansLow;
};

int PairsFor(uint64_t changed) { return changed >= kTwoPairsFrom ? 2 : 1; }

}  // namespace

void EncodeStrands(std::span<const Strand> strands, Bytes& out) {
  // Raw bits go forward in decoding order, symbols backward.
  thread_local Bytes raw;
  thread_local std::vector<uint32_t> quotients;
  thread_local std::vector<uint16_t> words;
  thread_local std::vector<GapModel> gaps;
  size_t count = 0;
  for (const Strand& strand : strands) count += strand.changed.size();
  raw.clear();
  gaps.clear();
  quotients.resize(count);
  BitWriter bits(raw);
  size_t symbols = 2 * count, at = 0;
  for (const Strand& strand : strands) {
    if (strand.changed.empty()) {
      gaps.push_back({});
      continue;
    }
    const GapModel model = GapModelFor(strand.members, strand.changed.size());
    gaps.push_back(model);
    const uint32_t low_mask = (1u << model.low_bits) - 1;
    uint32_t next = 0;  // the lowest member that may change
    for (size_t i = 0; i < strand.changed.size(); ++i) {
      const uint32_t gap = strand.changed[i] - next;
      bits.Put(gap & low_mask, model.low_bits);
      if (strand.tokens[i].extra_bits != 0) bits.Put(strand.tokens[i].extra, strand.tokens[i].extra_bits);
      const uint32_t quotient = gap >> model.low_bits;
      quotients[at++] = quotient;
      if (quotient >= model.escape) [[unlikely]]
        symbols += quotient / model.escape;
      next = strand.changed[i] + 1;
    }
  }
  bits.Finish();

  words.resize(symbols + 1);
  RansEncoder encoder(words);
  const int pairs = PairsFor(count);
  States states[2];
  for (size_t s = strands.size(); s-- > 0;) {
    const GapModel& model = gaps[s];
    const SymbolTable& values = *strands[s].values;
    for (size_t i = strands[s].changed.size(); i-- > 0;) {
      --at;
      auto& [gap_state, value_state] = states[pairs == 2 ? at & 1 : 0];
      encoder.Put(value_state, values, strands[s].tokens[i].symbol);
      const uint32_t quotient = quotients[at];
      if (quotient >= model.escape) [[unlikely]] {
        encoder.Put(gap_state, *model.table, quotient % model.escape);
        for (uint32_t n = quotient / model.escape; n > 0; --n) encoder.Put(gap_state, *model.table, model.escape);
      } else {
        encoder.Put(gap_state, *model.table, quotient);
      }
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

Status DecodeStrands(ByteSpan payload, std::span<const StrandShape> strands, int value_bits, DecodedSteps& steps,
                     const MemberBytes& bytes) {
  thread_local std::vector<uint16_t> words;
  uint64_t count = 0;
  for (const StrandShape& strand : strands) count += strand.changed;
  ByteReader reader(payload);
  const int pairs = PairsFor(count);
  States even, odd;
  for (States* pair : {&even, &odd}) {
    if (pair == &odd && pairs == 1) break;
    pair->gap = reader.Int<uint32_t>();
    pair->value = reader.Int<uint32_t>();
    if (pair->gap < kRansLow || pair->value < kRansLow) reader.Fail();
  }
  const uint64_t word_count = reader.Varint();
  if (!reader.ok() || word_count > reader.remaining() / 2) {
    return Fail(Code::kCorrupt, "malformed start of a sparse block");
  }
  ReadWords(reader.Raw(2 * word_count), words);
  RansDecoder decoder(words);
  BitReader bits(reader.Raw(reader.remaining()));

  steps.members.resize(count);
  steps.ranks.resize(count);
  steps.escaped.clear();
  uint32_t* const members = steps.members.data();
  uint32_t* const ranks = steps.ranks.data();
  const std::byte* const data = bytes.data;
  const size_t stride = bytes.stride;
  uint64_t i = 0;
  for (const StrandShape& strand : strands) {
    if (strand.changed == 0) continue;
    // Everything that the loop touches in locals: it runs for each changed element.
    const GapModel gaps = GapModelFor(strand.members, strand.changed);
    const SymbolTable& gap_table = *gaps.table;
    const SymbolTable& value_table = *strand.values;
    const int low_bits = gaps.low_bits;
    const uint32_t escape = gaps.escape;
    const uint64_t limit = strand.members, end = i + strand.changed;
    uint64_t next = 0;
    const auto decode_one = [&](States& pair) __attribute__((always_inline)) {
      uint64_t quotient = decoder.Get(pair.gap, gap_table);
      if (quotient == escape) [[unlikely]] {
        uint32_t symbol = 0;
        while ((symbol = decoder.Get(pair.gap, gap_table)) == escape) {
          quotient += escape;
          if (quotient > limit || !decoder.ok()) return false;
        }
        quotient += symbol;
      }
      const uint32_t value = decoder.Get(pair.value, value_table);
      const uint64_t member = next + (quotient << low_bits) + bits.Get(low_bits);
      if (member >= limit || !decoder.ok()) [[unlikely]]
        return false;
      __builtin_prefetch(data + member * stride);
      members[i] = static_cast<uint32_t>(member);
      next = member + 1;
      if (value < 16) [[likely]] {
        ranks[i] = value;
      } else if (value < kStepEscape) {
        const int exponent = static_cast<int>(value) - 16 + 4;
        ranks[i] = (1u << exponent) + static_cast<uint32_t>(bits.Get(exponent));
      } else {
        ranks[i] = kEscapedStep + static_cast<uint32_t>(steps.escaped.size());
        steps.escaped.push_back(bits.Get(value_bits));
      }
      ++i;
      return true;
    };
    bool good = true;
    if (pairs == 2) {
      if ((i & 1) != 0) good = decode_one(odd);
      while (good && i + 1 < end) good = decode_one(even) && decode_one(odd);
    }
    while (good && i < end) good = decode_one(even);
    if (!good) return Fail(Code::kCorrupt, "a change is beyond its {} members, or the block is cut off", limit);
  }
  if (!decoder.AtEnd() || !bits.AtEnd() || even.gap != kRansLow || even.value != kRansLow || odd.gap != kRansLow ||
      odd.value != kRansLow) {
    return Fail(Code::kCorrupt, "a sparse block does not end where its changes end");
  }
  return {};
}

}  // namespace skerry
