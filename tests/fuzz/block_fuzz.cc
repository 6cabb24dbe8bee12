// Payloads of single blocks of the methods that need no magnitudes, decoded; and, as the other way round, changes from
// the input, encoded and decoded again.
#include <limits>

#include "blocks.h"
#include "skerry/diff/find_changes.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/huffman_frame.h"
#include "skerry/patch/sparse_flat.h"
#include "skerry/patch/zstd_frame.h"

namespace skerry {
namespace {

void DecodeHostile(FuzzedDataProvider& input, DType dtype) {
  const int unit = DTypeUnit(dtype);
  const OldRuns old = SomeRuns(input, static_cast<size_t>(unit));
  const uint64_t units = UnitsOf(old.runs(), unit);
  const auto count = input.ConsumeIntegralInRange<uint64_t>(1, units);
  const SymbolTable table = SomeTable(input);
  const std::string payload = input.ConsumeRemainingBytesAsString();
  BlockChanges changes;
  changes.unit = unit;
  std::vector<RunningDigest> moved(old.bytes.size());
  if (DecodeSparseFlat(AsBytes(payload), count, dtype, table, old.runs(), changes, moved)) {
    CheckDecoded(changes, old, count, moved);
  }
  if (DecodeDense(AsBytes(payload), units, dtype, changes)) {
    FUZZ_CHECK(changes.all && changes.count() == units);
  }
}

template <typename T>
void RoundTrip(FuzzedDataProvider& input, DType dtype) {
  const OldRuns old = SomeRuns(input, sizeof(T));
  const SymbolTable table = SomeTable(input);
  const bool sign_magnitude = DTypeIsSignMagnitude(dtype);
  const Bytes before = old.Joined(), after = SomeChanges(input, before, sizeof(T));
  const uint64_t units = before.size() / sizeof(T);
  std::vector<uint32_t> positions(units + 64);
  positions.resize(FindChangesScalar(before.data(), after.data(), units, sizeof(T), positions.data()));
  if (positions.empty()) return;
  std::vector<StepToken> tokens;
  for (const uint32_t position : positions) {
    const T old_bits = LoadLe<T>(before.data() + position * sizeof(T));
    const T new_bits = LoadLe<T>(after.data() + position * sizeof(T));
    StepToken token = TokenOf(old_bits, new_bits, sign_magnitude);
    if (token.symbol < kStepEscape) {
      const uint64_t rank = token.symbol < 16 ? token.symbol : (1ull << token.extra_bits) + token.extra;
      FUZZ_CHECK(AfterStep(old_bits, rank, sign_magnitude) == new_bits);
    }
    if (table.frequency(token.symbol) == 0) token = EscapedToken(new_bits, 8 * sizeof(T));
    tokens.push_back(token);
  }

  Bytes payload;
  EncodeSparseFlat(units, positions, tokens, table, payload);
  BlockChanges changes;
  changes.unit = sizeof(T);
  std::vector<RunningDigest> moved(old.bytes.size());
  FUZZ_CHECK(DecodeSparseFlat(payload, positions.size(), dtype, table, old.runs(), changes, moved));
  FUZZ_CHECK(changes.positions == positions);
  CheckDecoded(changes, old, positions.size(), moved);
  Bytes target = before;
  ApplyBlock(changes, target.data());
  ApplyBlock(changes, target.data());
  FUZZ_CHECK(target == after);

  if (positions.size() % 8 != 0) return;  // compression is slow beside all the rest
  Bytes dense;
  EncodeDense(after, dtype, dense);
  FUZZ_CHECK(dense.size() <= after.size() + 5 * sizeof(T));
  FUZZ_CHECK(DecodeDense(dense, units, dtype, changes) && changes.values == after);
  Bytes frame, back(after.size());
  EncodeHuffmanFrame(after, frame);
  FUZZ_CHECK(DecompressFrame(frame, back) && back == after);
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  const auto dtype = *DTypeFromCode(input.ConsumeIntegralInRange<uint8_t>(0, kDTypeCount - 1));
  if (input.ConsumeBool()) {
    DecodeHostile(input, dtype);
  } else {
    switch (DTypeUnit(dtype)) {
      case 1: RoundTrip<uint8_t>(input, dtype); break;
      case 2: RoundTrip<uint16_t>(input, dtype); break;
      case 4: RoundTrip<uint32_t>(input, dtype); break;
      default: RoundTrip<uint64_t>(input, dtype); break;
    }
  }
  return 0;
}
