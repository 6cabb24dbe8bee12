// Where the weights of a checkpoint lie: how many are in cells of which width, for each view, by one read of it.
#ifndef SKERRY_ABSORB_CENSUS_H_
#define SKERRY_ABSORB_CENSUS_H_

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "skerry/absorb/served_view.h"
#include "skerry/absorb/tensor_kind.h"
#include "skerry/base/progress.h"
#include "skerry/base/result.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// Weights of one magnitude in cells of one width.
struct CellClass {
  int exponent = 0;         // the magnitude is at least 2^exponent and below twice that
  int width_step = 0;       // the cell's width is about 2^((width_step + 0.5) / kWidthSteps); see Width
  bool quantised = false;   // the width is that of the view's codes, else of BF16
  bool at_power = false;    // the served number is a power of two, and its cell narrower below
  bool in_masters = false;  // the tensor is F32: masters themselves, anywhere in their cells
  auto operator<=>(const CellClass&) const = default;

  double Width() const;
};

// Widths of an octave that are told apart.
inline constexpr int kWidthSteps = 8;

using CellCounts = std::map<CellClass, uint64_t>;

struct ViewCensus {
  const ServedView* view = nullptr;
  std::array<CellCounts, kTensorKinds> kinds;
  uint64_t quantised = 0;  // weights
  uint64_t scales = 0;
  uint64_t tensor_bytes = 0;  // of a checkpoint of this view
};

struct Census {
  uint64_t weights = 0;      // finite or not, of the tensors that were counted
  uint64_t zeros = 0;        // of these: padding, pruned, never trained; taken as unmoved
  uint64_t passed_over = 0;  // elements of tensors that hold no BF16, F16, F32 numbers: codes, integers
  uint64_t vocabulary = 0;   // rows of the largest embedding
  std::array<uint64_t, kTensorKinds> kinds{};  // weights
  std::vector<ViewCensus> views;
};

// Reads each byte once. Weights of F16 and F32 are taken by their value rounded to BF16; of F32 tensors, that all are
// masters. Memory: some 6 MiB a thread.
Result<Census> TakeCensus(const TensorSource& source, std::span<const ServedView* const> views, int threads,
                          Progress& progress);

}  // namespace skerry

#endif  // SKERRY_ABSORB_CENSUS_H_
