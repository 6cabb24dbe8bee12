#include "skerry/patch/byte_counts.h"

#include <algorithm>

namespace skerry {
namespace {

constexpr size_t kLine = 64;

// Four tables, since a count that was just stored can't be read at once.
class Counter {
 public:
  void Add(ByteSpan bytes) {
    size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      const auto word = LoadLe<uint64_t>(bytes.data() + i);
      for (size_t k = 0; k < 8; ++k) ++tables_[k % 4][static_cast<uint8_t>(word >> 8 * k)];
    }
    for (; i < bytes.size(); ++i) ++tables_[0][std::to_integer<uint8_t>(bytes[i])];
  }
  ByteCounts Total() const {
    ByteCounts total;
    for (size_t s = 0; s < 256; ++s) total[s] = tables_[0][s] + tables_[1][s] + tables_[2][s] + tables_[3][s];
    return total;
  }

 private:
  std::array<ByteCounts, 4> tables_{};
};

constexpr size_t kCodeSample = 8 << 10;

// A byte that may occur takes at least 2^-11 of the code's room. Where the sample missed more of them than this, all
// are counted.
constexpr int kMostMissed = 16;
constexpr uint32_t kWeightOfCounted = 16;

// What values occur, but for gaps: plain loops, which compilers vectorise.
struct Range {
  explicit Range(ByteSpan bytes) {
    uint8_t least = 255, below_least = 255, most = 0;  // below_least: of those that are not 0, less 1
    for (const std::byte byte : bytes) {
      const auto b = std::to_integer<uint8_t>(byte);
      const auto less = static_cast<uint8_t>(b - 1);
      least = b < least ? b : least;
      below_least = less < below_least ? less : below_least;
      most = b > most ? b : most;
    }
    has_zero = least == 0;
    first = below_least + 1;
    last = most;
  }
  bool has_zero;
  int first, last;  // of those that are not 0
};

}  // namespace

ByteCounts CountBytes(ByteSpan bytes) {
  Counter counter;
  counter.Add(bytes);
  return counter.Total();
}

ByteCounts CountSample(ByteSpan bytes, size_t wanted) {
  const size_t stride = std::max<size_t>(1, bytes.size() / wanted) * kLine;
  Counter counter;
  for (size_t at = 0; at < bytes.size(); at += stride) {
    counter.Add(bytes.subspan(at, std::min(kLine, bytes.size() - at)));
  }
  return counter.Total();
}

ByteCounts CountForCode(ByteSpan bytes) {
  if (bytes.size() < 2 * kCodeSample) return CountBytes(bytes);
  ByteCounts counts = CountSample(bytes, kCodeSample);
  const Range range(bytes);
  int missed = 0;
  const auto allow = [&](int byte) {
    uint32_t& count = counts[static_cast<size_t>(byte)];
    missed += count == 0;
    count = count * kWeightOfCounted + 1;
  };
  if (range.has_zero) allow(0);
  for (int byte = range.first; byte <= range.last; ++byte) allow(byte);
  return missed <= kMostMissed ? counts : CountBytes(bytes);
}

}  // namespace skerry
