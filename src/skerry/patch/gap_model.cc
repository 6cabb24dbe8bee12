#include "skerry/patch/gap_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace skerry {
namespace {

constexpr int kSteps = 4;  // of an octave

// Where at most half of the members change: ratio of the probabilities of neighbouring quotients, times 2^16, for mean
// distance m = 2^e (1 + (f + 1/2) / 4), e >= 1: (1 - 1/m)^(2^low_bits), and exp(-2^low_bits / m) in the last row, which
// stands for all larger e.
constexpr uint32_t kSparseEscape = 31;
constexpr int kSparseOctaves = 5;
constexpr std::array<uint32_t, kSparseOctaves * kSteps> kSparseRatio = {36409, 41705, 45371, 48060, 50972, 53620, 55454,
                                                                        56798, 51782, 54162, 55841, 57089, 52142, 54408,
                                                                        56020, 57225, 52477, 54641, 56191, 57355};

// Where more than half of them change, the ratio is the share of those that do not, 2^-(e+1) (1 + (f + 1/2) / 4); a
// short table leaves the likely symbol almost everything.
constexpr uint32_t kDenseEscape = 7;
constexpr int kDenseOctaves = 12;
constexpr uint32_t DenseRatio(int octave, int step) { return static_cast<uint32_t>(9 + 2 * step) << (12 - octave); }

SymbolTable MakeTable(uint32_t ratio, uint32_t escape) {
  std::array<uint64_t, kSymbols> weights{};
  uint64_t weight = 1ull << 32;
  for (uint32_t q = 0; q < escape; ++q) {
    weights[q] = std::max<uint64_t>(weight, 1);
    weight = weight * ratio >> 16;
  }
  weights[escape] = std::max<uint64_t>((weight << 16) / (65536 - ratio), 1);  // the rest of the geometric series
  return SymbolTable(SymbolTable::Normalise(weights));
}

struct Tables {
  std::vector<SymbolTable> sparse, dense;
  // Every member changes: nothing needs to be said.
  SymbolTable certain{SymbolTable::Frequencies{kProbabilityOne}};

  Tables() {
    for (const uint32_t ratio : kSparseRatio) sparse.push_back(MakeTable(ratio, kSparseEscape));
    for (int octave = 1; octave <= kDenseOctaves; ++octave) {
      for (int step = 0; step < kSteps; ++step) dense.push_back(MakeTable(DenseRatio(octave, step), kDenseEscape));
    }
  }
};

}  // namespace

GapModel GapModelFor(uint64_t members, uint64_t changed) {
  static const Tables tables;
  const uint64_t unchanged = members - changed;
  if (unchanged == 0) return {.table = &tables.certain, .low_bits = 0, .escape = kDenseEscape};
  if (changed > unchanged) {
    const uint64_t share = (unchanged << 32) / members;  // 32 fraction bits, below 1/2
    const int octave =
        share == 0 ? kDenseOctaves : std::min(kDenseOctaves, 32 - static_cast<int>(std::bit_width(share)));
    const auto step = static_cast<int>(share >> (29 - octave) & 3);
    return {.table = &tables.dense[static_cast<size_t>((octave - 1) * kSteps + step)],
            .low_bits = 0,
            .escape = kDenseEscape};
  }
  const uint64_t mean = (members << 16) / changed;  // 16 fraction bits; at least 2.0
  const int octave = static_cast<int>(std::bit_width(mean)) - 17;
  const auto step = static_cast<int>(mean >> (octave + 14) & 3);
  const int row = std::min(octave, kSparseOctaves) - 1;
  return {.table = &tables.sparse[static_cast<size_t>(row * kSteps + step)],
          .low_bits = std::max(0, octave - 2),
          .escape = kSparseEscape};
}

}  // namespace skerry
