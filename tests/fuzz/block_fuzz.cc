// Payloads of single blocks, decoded; and, as the other way round, positions and values from the input, encoded and
// decoded again.
#include <fuzzer/FuzzedDataProvider.h>

#include <limits>

#include "check.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/sparse_flat.h"

namespace skerry {
namespace {

// Small blocks most of the time, since they are fast; some of a little more than a cell.
uint64_t Units(FuzzedDataProvider& input) {
  return input.ConsumeIntegralInRange<uint8_t>(0, 15) != 1 ? input.ConsumeIntegralInRange<uint64_t>(1, 300)
                                                           : input.ConsumeIntegralInRange<uint64_t>(1, 70'000);
}

Bytes OldBytes(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 3);
  return bytes;
}

SymbolTable Table(FuzzedDataProvider& input) {
  std::array<uint64_t, kSymbols> counts{};
  for (uint64_t& count : counts) count = input.ConsumeIntegral<uint8_t>();
  SymbolTable::Frequencies frequencies = SymbolTable::Normalise(counts);
  if (input.ConsumeBool()) {  // some symbols that can't be decoded
    for (int s = 1; s < kSymbols; ++s) {
      if (counts[static_cast<size_t>(s)] % 2 == 0) {
        frequencies[0] = static_cast<uint16_t>(frequencies[0] + frequencies[static_cast<size_t>(s)]);
        frequencies[static_cast<size_t>(s)] = 0;
      }
    }
  }
  return SymbolTable(frequencies);
}

void CheckPositions(const BlockChanges& changes, uint64_t units, uint64_t count) {
  FUZZ_CHECK(changes.positions.size() == count && changes.count() == count);
  for (size_t i = 0; i < count; ++i) {
    FUZZ_CHECK(changes.positions[i] < units);
    FUZZ_CHECK(i == 0 || changes.positions[i] > changes.positions[i - 1]);
  }
}

void DecodeHostile(FuzzedDataProvider& input, DType dtype, int unit) {
  const auto units = Units(input);
  const auto count = input.ConsumeIntegralInRange<uint64_t>(1, units);
  const SymbolTable table = Table(input);
  const Bytes before = OldBytes(units * static_cast<size_t>(unit));
  const std::string payload = input.ConsumeRemainingBytesAsString();
  BlockChanges changes;
  changes.unit = unit;
  RunningDigest moved;
  if (DecodeSparseFlat(AsBytes(payload), units, count, dtype, table, before, 0, changes, moved)) {
    CheckPositions(changes, units, count);
    Bytes target = before;
    ApplyBlock(changes, target.data());
    FUZZ_CHECK(moved == DigestWordsScalar(target, 0) - DigestWordsScalar(before, 0));
  }
  if (DecodeDense(AsBytes(payload), units, changes)) {
    FUZZ_CHECK(changes.all && changes.count() == units);
  }
}

template <typename T>
void RoundTrip(FuzzedDataProvider& input, DType dtype) {
  const auto units = Units(input);
  const SymbolTable::Frequencies even = SymbolTable::Normalise(std::array<uint64_t, kSymbols>{});
  const SymbolTable table = input.ConsumeBool() ? SymbolTable(even) : [&] {
    std::array<uint64_t, kSymbols> counts;
    for (uint64_t& count : counts) count = input.ConsumeIntegral<uint8_t>();
    return SymbolTable(SymbolTable::Normalise(counts));
  }();
  const bool sign_magnitude = DTypeIsSignMagnitude(dtype);
  const Bytes before = OldBytes(units * sizeof(T));
  Bytes after = before;
  std::vector<uint32_t> positions;
  std::vector<StepToken> tokens;
  for (uint64_t next = 0; next < units && input.remaining_bytes() > 0;) {
    const uint64_t position = next + input.ConsumeIntegralInRange<uint64_t>(0, input.ConsumeBool() ? 3 : units);
    if (position >= units) break;
    const T old_bits = LoadLe<T>(before.data() + position * sizeof(T));
    const T new_bits =
        input.ConsumeBool() ? static_cast<T>(old_bits + input.ConsumeIntegral<int8_t>()) : input.ConsumeIntegral<T>();
    next = position + 1;
    if (new_bits == old_bits) continue;
    const StepToken token = TokenOf(old_bits, new_bits, sign_magnitude);
    if (token.symbol < kStepEscape) {
      const uint64_t rank = token.symbol < 16 ? token.symbol : (1ull << token.extra_bits) + token.extra;
      FUZZ_CHECK(AfterStep(old_bits, rank, sign_magnitude) == new_bits);
    }
    positions.push_back(static_cast<uint32_t>(position));
    tokens.push_back(token);
    StoreLe(after.data() + position * sizeof(T), new_bits);
  }
  if (positions.empty()) return;

  Bytes payload;
  EncodeSparseFlat(units, positions, tokens, table, payload);
  BlockChanges changes;
  changes.unit = sizeof(T);
  RunningDigest moved;
  FUZZ_CHECK(DecodeSparseFlat(payload, units, positions.size(), dtype, table, before, 0, changes, moved));
  FUZZ_CHECK(changes.positions == positions);
  Bytes target = before;
  ApplyBlock(changes, target.data());
  ApplyBlock(changes, target.data());
  FUZZ_CHECK(target == after);

  if (positions.size() % 8 != 0) return;  // compression is slow beside all the rest
  Bytes dense;
  EncodeDense(after, sizeof(T), dense);
  FUZZ_CHECK(dense.size() <= after.size() + 5 * sizeof(T));
  FUZZ_CHECK(DecodeDense(dense, units, changes) && changes.values == after);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  const auto dtype = *DTypeFromCode(input.ConsumeIntegralInRange<uint8_t>(0, kDTypeCount - 1));
  const int unit = DTypeUnit(dtype);
  if (input.ConsumeBool()) {
    DecodeHostile(input, dtype, unit);
  } else {
    switch (unit) {
      case 1: RoundTrip<uint8_t>(input, dtype); break;
      case 2: RoundTrip<uint16_t>(input, dtype); break;
      case 4: RoundTrip<uint32_t>(input, dtype); break;
      default: RoundTrip<uint64_t>(input, dtype); break;
    }
  }
  return 0;
}
