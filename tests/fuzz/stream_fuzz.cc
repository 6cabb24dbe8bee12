// The entropy-coded part of the sparse methods: any payload under any shape of strands. What is accepted has exactly
// one encoding, so encoding it again gives the payload.
#include "blocks.h"
#include "skerry/patch/change_stream.h"
#include "skerry/patch/format.h"

namespace skerry {
namespace {

StepToken TokenOfRank(uint32_t rank) {
  if (rank < 16) return {.symbol = static_cast<uint8_t>(rank)};
  const int exponent = std::bit_width(rank) - 1;
  return {.extra = rank - (uint64_t{1} << exponent),
          .symbol = static_cast<uint8_t>(12 + exponent),
          .extra_bits = static_cast<uint8_t>(exponent)};
}

void CheckSteps(const DecodedSteps& steps, const std::vector<StrandShape>& shapes) {
  size_t i = 0, escaped = 0;
  for (const StrandShape& shape : shapes) {
    for (uint64_t n = 0; n < shape.changed; ++n, ++i) {
      FUZZ_CHECK(steps.members[i] < shape.members && (n == 0 || steps.members[i] > steps.members[i - 1]));
      if (steps.ranks[i] >= kEscapedStep) {
        FUZZ_CHECK(steps.ranks[i] - kEscapedStep == escaped++);
      } else {
        FUZZ_CHECK(steps.ranks[i] < 1u << 19);
      }
    }
  }
  FUZZ_CHECK(i == steps.members.size() && i == steps.ranks.size() && escaped == steps.escaped.size());
}

Bytes EncodedAgain(const DecodedSteps& steps, const std::vector<StrandShape>& shapes, int value_bits) {
  std::vector<StepToken> tokens;
  for (const uint32_t rank : steps.ranks) {
    tokens.push_back(rank < kEscapedStep ? TokenOfRank(rank)
                                         : EscapedToken(steps.escaped[rank - kEscapedStep], value_bits));
  }
  std::vector<Strand> strands;
  size_t at = 0;
  for (const StrandShape& shape : shapes) {
    strands.push_back({.members = shape.members,
                       .changed = std::span(steps.members).subspan(at, shape.changed),
                       .tokens = std::span(tokens).subspan(at, shape.changed),
                       .values = shape.values});
    at += shape.changed;
  }
  Bytes payload;
  EncodeStrands(strands, payload);
  return payload;
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  constexpr std::array kBits = {4, 8, 16, 32, 64};
  const int value_bits = kBits[input.ConsumeIntegralInRange<size_t>(0, kBits.size() - 1)];
  const std::array<SymbolTable, 2> tables = {SomeTable(input), SomeTable(input)};
  std::vector<StrandShape> shapes;
  for (int s = input.ConsumeIntegralInRange<int>(1, 16); s > 0; --s) {
    const bool large = input.ConsumeIntegralInRange<uint8_t>(0, 63) == 1;
    const auto members = input.ConsumeIntegralInRange<uint64_t>(0, large ? kMaxCellsPerBlock * kCellUnits : 300);
    // Often everything or nothing, now and then half a million.
    const auto changed = input.ConsumeBool()
                             ? input.ConsumeIntegralInRange<uint64_t>(0, std::min<uint64_t>(members, 300))
                             : std::min<uint64_t>(members, 1 << 19);
    shapes.push_back({.members = members, .changed = changed, .values = &tables[static_cast<size_t>(s) % 2]});
  }
  const std::string payload = input.ConsumeRemainingBytesAsString();
  DecodedSteps steps;
  if (!DecodeStrands(AsBytes(payload), shapes, value_bits, steps)) return 0;
  CheckSteps(steps, shapes);
  FUZZ_CHECK(EncodedAgain(steps, shapes, value_bits) == ToBytes(AsBytes(payload)));
  return 0;
}
