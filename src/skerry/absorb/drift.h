// How far an optimizer carries F32 masters, without knowing the model: Adam on random gradients.
#ifndef SKERRY_ABSORB_DRIFT_H_
#define SKERRY_ABSORB_DRIFT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "skerry/base/result.h"

namespace skerry {

// Adam or AdamW (Kingma and Ba 2015, algorithm 1, with bias correction; decoupled weight decay is far below a step and
// left out). Adam divides by the gradient's own size, so that of a gradient only matters how much of it is the same at
// every step, and its size where that comes near Adam's epsilon.
struct Training {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.999;
  // The gradient of an element is signal * z + noise, z drawn once and the noise at each step, both from N(0, 1). Its
  // square is the batch size over the gradient noise scale (McCandlish et al. 2018, arXiv:1812.06162, section 2.2).
  double signal = 0;
  // The learning rate rises to `lr` linearly over so many steps: the first one has lr / warmup.
  uint64_t warmup = 0;
  // Gradients' noise has the size `size` epsilons, or of each element another: the logarithms are N(log(size),
  // spread^2). Infinite: far above epsilon.
  double size = std::numeric_limits<double>::infinity();
  double spread = 0;
};

// From after step `from` to after step `to`; 0 is the beginning.
struct StepRange {
  uint64_t from = 0;
  uint64_t to = 1;
  auto operator<=>(const StepRange&) const = default;
};

// Where the same elements are at both ends, from where they began, in units of `lr`.
struct Move {
  StepRange steps;
  std::vector<float> before, after;
};

inline constexpr uint64_t kMostSteps = 10'000;
inline constexpr size_t kDriftElements = 1 << 14;

// kInvalid for a coefficient that is none, or more than kMostSteps steps, or a range that does not rise.
Status CheckTraining(const Training& training);

// A move for each range. The same numbers give the same moves: the draws are fixed. Memory: 8 bytes an element and
// range.
Result<std::vector<Move>> SimulateDrift(const Training& training, std::span<const StepRange> ranges,
                                        size_t elements = kDriftElements);

}  // namespace skerry

#endif  // SKERRY_ABSORB_DRIFT_H_
