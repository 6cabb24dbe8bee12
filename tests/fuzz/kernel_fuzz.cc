// The compare and digest kernels on every instruction set that this machine has, against their scalar specifications.
#include <fuzzer/FuzzedDataProvider.h>

#include <vector>

#include "check.h"
#include "skerry/base/simd.h"
#include "skerry/diff/find_changes.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {
namespace {

constexpr std::string_view kSets[] = {"scalar", "ssse3", "sse4", "avx2", "avx3", "best"};

// `content` at some distance from the allocation's start, so that every alignment occurs; exactly as long as it is, so
// that a read past the end is found.
struct Placed {
  Placed(const std::string& content, size_t shift)
      : buffer(new std::byte[shift + content.size()]), at(buffer.get() + shift) {
    std::memcpy(at, content.data(), content.size());
  }
  std::unique_ptr<std::byte[]> buffer;
  std::byte* at;
};

void CompareOnAllSets(const std::byte* before, const std::byte* after, size_t units, int unit) {
  std::vector<uint32_t> expected(units + 64), found(units + 64);
  expected.resize(FindChangesScalar(before, after, units, unit, expected.data()));
  for (const std::string_view set : kSets) {
    FUZZ_CHECK(SetSimd(set));
    found.resize(units + 64);
    found.resize(FindChanges(before, after, units, unit, found.data()));
    FUZZ_CHECK(found == expected);
    FUZZ_CHECK(CountChanges(before, after, units, unit) == expected.size());
  }
}

void DigestOnAllSets(ByteSpan bytes, uint64_t first_word, size_t split_word) {
  const RunningDigest expected = DigestWordsScalar(bytes, first_word);
  for (const std::string_view set : kSets) {
    FUZZ_CHECK(SetSimd(set));
    FUZZ_CHECK(DigestWords(bytes, first_word) == expected);
    const size_t split = std::min(bytes.size(), split_word * 8);
    RunningDigest sum = DigestWords(bytes.first(split), first_word);
    if (split < bytes.size()) sum += DigestWords(bytes.subspan(split), first_word + split_word);
    FUZZ_CHECK(sum == expected);
  }
}

}  // namespace
}  // namespace skerry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skerry;
  FuzzedDataProvider input(data, size);
  const int unit = 1 << input.ConsumeIntegralInRange<int>(0, 3);
  const auto shift_before = input.ConsumeIntegralInRange<size_t>(0, 64);
  const auto shift_after = input.ConsumeIntegralInRange<size_t>(0, 64);
  const auto first_word = input.ConsumeIntegral<uint64_t>();
  const auto split_word = input.ConsumeIntegral<uint8_t>();
  // The second buffer is the first one with some bytes changed; repeats make it longer than the fuzzer's input.
  const size_t repeats = input.ConsumeIntegralInRange<size_t>(1, 32);
  std::vector<std::pair<uint16_t, uint8_t>> flips(input.ConsumeIntegralInRange<size_t>(0, 40));
  for (auto& [at, mask] : flips) {
    at = input.ConsumeIntegral<uint16_t>();
    mask = input.ConsumeIntegral<uint8_t>();
  }
  const std::string piece = input.ConsumeRemainingBytesAsString();
  std::string before;
  for (size_t i = 0; i < repeats && before.size() < 65536; ++i) before += piece;
  std::string after = before;
  for (const auto& [at, mask] : flips) {
    if (at < after.size()) after[at] = static_cast<char>(after[at] ^ mask);
  }
  const Placed old_bytes(before, shift_before), new_bytes(after, shift_after);
  CompareOnAllSets(old_bytes.at, new_bytes.at, before.size() / static_cast<size_t>(unit), unit);
  DigestOnAllSets({new_bytes.at, after.size()}, first_word, split_word);
  return 0;
}
