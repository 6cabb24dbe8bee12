#include "skerry/patch/gap_model.h"

#include <array>
#include <bit>
#include <memory>
#include <vector>

namespace skerry {
namespace {

constexpr int kOctaves = 6;
constexpr int kSteps = 4;  // of an octave

// Ratio of the probabilities of neighbouring quotients, times 2^16, for mean distance m = 2^e (1 + (f + 1/2) / 4):
// (1 - 1/m)^(2^low_bits), and exp(-2^low_bits / m) in the last row, which stands for all larger e.
constexpr std::array<uint32_t, kOctaves * kSteps> kRatio = {7282,  17873, 25206, 30583, 36409, 41705, 45371, 48060,
                                                            50972, 53620, 55454, 56798, 51782, 54162, 55841, 57089,
                                                            52142, 54408, 56020, 57225, 52477, 54641, 56191, 57355};

SymbolTable MakeTable(uint32_t ratio) {
  std::array<uint64_t, kSymbols> weights;
  uint64_t weight = 1ull << 32;
  for (uint32_t q = 0; q < kGapEscape; ++q) {
    weights[q] = weight;
    weight = weight * ratio >> 16;
  }
  weights[kGapEscape] = (weight << 16) / (65536 - ratio);  // the rest of the geometric series
  return SymbolTable(SymbolTable::Normalise(weights));
}

const std::vector<SymbolTable>& Tables() {
  static const std::vector<SymbolTable> tables = [] {
    std::vector<SymbolTable> made;
    for (const uint32_t ratio : kRatio) made.push_back(MakeTable(ratio));
    return made;
  }();
  return tables;
}

}  // namespace

GapModel GapModelFor(uint64_t units, uint64_t changed) {
  const uint64_t mean = (units << 16) / changed;  // 16 fraction bits; at least 1.0
  const int octave = std::bit_width(mean) - 17;
  const auto step = static_cast<int>(mean >> (octave + 14) & 3);
  const int row = octave < kOctaves ? octave : kOctaves - 1;
  return {.table = &Tables()[static_cast<size_t>(row * kSteps + step)], .low_bits = octave > 2 ? octave - 2 : 0};
}

}  // namespace skerry
