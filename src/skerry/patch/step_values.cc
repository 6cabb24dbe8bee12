#include "skerry/patch/step_values.h"

#include <algorithm>
#include <limits>

namespace skerry {
namespace {

// The parts of a block's changes that lie in one run.
struct RunSteps {
  std::span<const uint32_t> positions;  // over all runs
  const uint32_t* ranks;
  uint32_t base;  // first position of the run
};

// Changes of one 64-bit word are gathered, and its old and new value mixed once. Returns the ranks or-ed together.
template <typename T>
uint32_t TakeRun(const OldRun& run, const RunSteps& steps, bool sign_magnitude, const uint64_t* escaped, std::byte* out,
                 RunningDigest& moved) {
  constexpr uint32_t kPerWord = 8 / sizeof(T);
  constexpr int kBits = 8 * sizeof(T);
  // Everything that the loop touches in locals: it runs for each changed element.
  const uint32_t* const positions = steps.positions.data();
  const uint32_t* const ranks = steps.ranks;
  const size_t count = steps.positions.size();
  const uint32_t base = steps.base;
  RunningDigest sum;
  uint32_t worst = 0;
  for (size_t i = 0; i < count;) {
    const uint32_t word = (positions[i] - base) / kPerWord;
    const uint64_t old_word = WordAt(run.bytes, word);
    uint64_t new_word = old_word;
    do {
      const int shift = static_cast<int>((positions[i] - base) % kPerWord) * kBits;
      const T old_value = static_cast<T>(old_word >> shift);
      T value = AfterStep(old_value, ranks[i], sign_magnitude);
      if (ranks[i] >= kEscapedStep) [[unlikely]] {
        value = static_cast<T>(escaped[ranks[i] - kEscapedStep]);
      } else {
        worst |= ranks[i];
      }
      new_word ^= static_cast<uint64_t>(static_cast<T>(old_value ^ value)) << shift;
      StoreLe(out + i * sizeof(T), value);
      ++i;
    } while (i < count && (positions[i] - base) / kPerWord == word);
    sum += MixWord(run.first_word + word, new_word) - MixWord(run.first_word + word, old_word);
  }
  moved += sum;
  return worst;
}

// Calls visit(run, its first position, its first change, its changes) for each run that has changes, of which 16 bytes
// hold `per_16_bytes` positions.
template <typename Visit>
void ForRuns(std::span<const OldRun> runs, std::span<const uint32_t> positions, uint64_t per_16_bytes, Visit visit) {
  size_t at = 0;
  uint64_t base = 0;
  for (size_t r = 0; r < runs.size() && at < positions.size(); ++r) {
    const uint64_t end = base + runs[r].bytes.size() * per_16_bytes / 16;
    const auto last = r + 1 == runs.size()
                          ? positions.end()
                          : std::lower_bound(positions.begin() + static_cast<ptrdiff_t>(at), positions.end(), end);
    const auto next = static_cast<size_t>(last - positions.begin());
    if (next > at) visit(r, static_cast<uint32_t>(base), at, next - at);
    at = next;
    base = end;
  }
}

template <typename T>
bool TakeAll(std::span<const OldRun> runs, std::span<const uint32_t> ranks, bool sign_magnitude,
             std::span<const uint64_t> escaped, BlockChanges& changes, std::span<RunningDigest> moved) {
  const std::span<const uint32_t> positions = changes.positions;
  changes.values.resize(positions.size() * sizeof(T));
  uint32_t worst = 0;
  ForRuns(runs, positions, 16 / sizeof(T), [&](size_t r, uint32_t base, size_t first, size_t count) {
    const RunSteps steps{.positions = positions.subspan(first, count), .ranks = ranks.data() + first, .base = base};
    worst |=
        TakeRun<T>(runs[r], steps, sign_magnitude, escaped.data(), changes.values.data() + first * sizeof(T), moved[r]);
  });
  return worst <= std::numeric_limits<T>::max();
}

// By how much changed bytes move their tensor's digest.
RunningDigest MovedBy(const OldRun& run, uint32_t base, std::span<const uint32_t> positions, ByteSpan values) {
  RunningDigest sum;
  for (size_t i = 0; i < positions.size();) {
    const uint32_t word = (positions[i] - base) / 8;
    const uint64_t old_word = WordAt(run.bytes, word);
    uint64_t new_word = old_word;
    for (; i < positions.size() && (positions[i] - base) / 8 == word; ++i) {
      const int shift = static_cast<int>((positions[i] - base) % 8 * 8);
      new_word &= ~(uint64_t{0xFF} << shift);
      new_word |= std::to_integer<uint64_t>(values[i]) << shift;
    }
    sum += MixWord(run.first_word + word, new_word) - MixWord(run.first_word + word, old_word);
  }
  return sum;
}

}  // namespace

Status TakeSteps(DType dtype, std::span<const OldRun> runs, std::span<const uint32_t> ranks,
                 std::span<const uint64_t> escaped, BlockChanges& changes, std::span<RunningDigest> moved) {
  const bool signs = DTypeIsSignMagnitude(dtype);
  const int unit = DTypeUnit(dtype);
  const bool fits = unit == 1   ? TakeAll<uint8_t>(runs, ranks, signs, escaped, changes, moved)
                    : unit == 2 ? TakeAll<uint16_t>(runs, ranks, signs, escaped, changes, moved)
                    : unit == 4 ? TakeAll<uint32_t>(runs, ranks, signs, escaped, changes, moved)
                                : TakeAll<uint64_t>(runs, ranks, signs, escaped, changes, moved);
  if (!fits) return Fail(Code::kCorrupt, "a value's step is wider than its dtype {}", DTypeName(dtype));
  return {};
}

Status TakeCodeSteps(DType dtype, bool sign_magnitude, std::span<const OldRun> runs, std::span<const uint32_t> ranks,
                     std::span<const uint64_t> escaped, BlockChanges& changes, std::span<RunningDigest> moved) {
  thread_local std::vector<uint32_t> codes;
  codes.swap(changes.positions);
  changes.positions.clear();
  changes.values.clear();
  bool fits = true;
  ForRuns(runs, codes, 32, [&](size_t r, uint32_t base, size_t first, size_t count) {
    const size_t first_change = changes.positions.size();
    for (size_t i = first; i < first + count; ++i) {
      const uint32_t position = codes[i] / 2;
      if (changes.positions.size() == first_change || changes.positions.back() != position) {
        changes.positions.push_back(position);
        changes.values.push_back(runs[r].bytes[position - base / 2]);
      }
      const int shift = codes[i] % 2 * 4;
      const auto byte = std::to_integer<uint8_t>(changes.values.back());
      const auto before = static_cast<uint8_t>(byte >> shift & 0xF);
      const bool is_escaped = ranks[i] >= kEscapedStep;
      const auto after = static_cast<uint8_t>(is_escaped ? escaped[ranks[i] - kEscapedStep]
                                                         : AfterCodeStep(before, ranks[i], sign_magnitude));
      fits &= is_escaped || ranks[i] < 16;
      changes.values.back() = static_cast<std::byte>((byte & ~(0xF << shift)) | after << shift);
    }
    moved[r] += MovedBy(runs[r], base / 2, std::span(changes.positions).subspan(first_change),
                        ByteSpan(changes.values).subspan(first_change));
  });
  if (!fits) return Fail(Code::kCorrupt, "a value's step is wider than its dtype {}", DTypeName(dtype));
  return {};
}

}  // namespace skerry
