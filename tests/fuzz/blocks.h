// What the targets for blocks share: shapes, tables and old bytes from a fuzzer's input, and what decoding must keep.
#ifndef SKERRY_TESTS_FUZZ_BLOCKS_H_
#define SKERRY_TESTS_FUZZ_BLOCKS_H_

#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <string_view>
#include <vector>

#include "check.h"
#include "skerry/base/simd.h"
#include "skerry/patch/block.h"
#include "skerry/patch/step_values.h"
#include "skerry/patch/symbol_table.h"
#include "skerry/patch/value_step.h"

namespace skerry {

inline constexpr std::string_view kSimdSets[] = {"scalar", "ssse3", "sse4", "avx2", "avx3", "best"};

inline void UseSimd(FuzzedDataProvider& input) {
  FUZZ_CHECK(SetSimd(kSimdSets[input.ConsumeIntegralInRange<size_t>(0, std::size(kSimdSets) - 1)]));
}

// Small most of the time, since that is fast.
inline uint64_t SomeUnits(FuzzedDataProvider& input, uint64_t most = 3000) {
  return input.ConsumeIntegralInRange<uint8_t>(0, 63) != 1 ? input.ConsumeIntegralInRange<uint64_t>(1, 300)
                                                           : input.ConsumeIntegralInRange<uint64_t>(1, most);
}

// A frequency table; symbols that are not counted can't be coded, but for those that an encoder relies on.
inline SymbolTable SomeTable(FuzzedDataProvider& input) {
  std::array<uint64_t, kSymbols> counts;
  for (uint64_t& count : counts) count = input.ConsumeIntegral<uint8_t>();
  return SymbolTable(SymbolTable::NormaliseSample(counts));
}

// Old bytes in one piece, cut into runs of tensors. Every run is its own allocation, so that a read past its end is
// found.
struct OldRuns {
  std::vector<Bytes> bytes;

  std::vector<OldRun> runs() const {
    std::vector<OldRun> runs;
    for (size_t r = 0; r < bytes.size(); ++r) runs.push_back({.bytes = bytes[r], .first_word = 8192 * r});
    return runs;
  }
  Bytes Joined() const {
    Bytes all;
    for (const Bytes& run : bytes) all.insert(all.end(), run.begin(), run.end());
    return all;
  }
};

// `pattern` is repeated, a little different each time.
inline OldRuns SomeRuns(FuzzedDataProvider& input, size_t unit) {
  OldRuns old;
  std::vector<uint64_t> sizes = {SomeUnits(input)};
  for (int more = input.ConsumeIntegralInRange<int>(0, 3); more > 0; --more) {
    sizes.push_back(input.ConsumeIntegralInRange<uint64_t>(0, 100));
  }
  const std::string pattern = input.ConsumeRandomLengthString(200);
  size_t at = 0;
  for (const uint64_t units : sizes) {
    Bytes bytes(units * unit);
    for (std::byte& byte : bytes) {
      byte = pattern.empty() ? static_cast<std::byte>(at * 131 >> 3)
                             : static_cast<std::byte>(pattern[at % pattern.size()] + at / 8192);
      ++at;
    }
    old.bytes.push_back(std::move(bytes));
  }
  return old;
}

// Decoding succeeded: positions rise below the block's end, and the digests moved as the bytes did.
inline void CheckDecoded(const BlockChanges& changes, const OldRuns& old, uint64_t count,
                         std::span<const RunningDigest> moved) {
  FUZZ_CHECK(!changes.all && changes.positions.size() == count && changes.count() == count);
  Bytes after = old.Joined();
  for (size_t i = 0; i < count; ++i) {
    FUZZ_CHECK(changes.positions[i] < after.size() / static_cast<size_t>(changes.unit));
    FUZZ_CHECK(i == 0 || changes.positions[i] > changes.positions[i - 1]);
  }
  ApplyBlock(changes, after.data());
  size_t at = 0;
  for (size_t r = 0; r < old.bytes.size(); ++r) {
    const auto part = ByteSpan(after).subspan(at, old.bytes[r].size());
    FUZZ_CHECK(moved[r] == DigestWordsScalar(part, 8192 * r) - DigestWordsScalar(old.bytes[r], 8192 * r));
    at += part.size();
  }
}

// New bytes: some units of the old ones changed, near and far.
inline Bytes SomeChanges(FuzzedDataProvider& input, const Bytes& before, size_t unit) {
  Bytes after = before;
  const uint64_t units = before.size() / unit;
  for (uint64_t next = 0; next < units && input.remaining_bytes() > 0;) {
    const uint64_t position = next + input.ConsumeIntegralInRange<uint64_t>(0, input.ConsumeBool() ? 3 : units);
    if (position >= units) break;
    std::byte* at = after.data() + position * unit;
    if (input.ConsumeBool()) {
      *at = static_cast<std::byte>(std::to_integer<int>(*at) + input.ConsumeIntegral<int8_t>());
    } else {
      for (size_t i = 0; i < unit; ++i) at[i] = static_cast<std::byte>(input.ConsumeIntegral<uint8_t>());
    }
    next = position + 1;
  }
  return after;
}

}  // namespace skerry

#endif  // SKERRY_TESTS_FUZZ_BLOCKS_H_
