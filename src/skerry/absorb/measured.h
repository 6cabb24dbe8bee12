// What versions of a run really changed, to stand beside a prediction.
#ifndef SKERRY_ABSORB_MEASURED_H_
#define SKERRY_ABSORB_MEASURED_H_

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "skerry/absorb/drift.h"
#include "skerry/absorb/tensor_kind.h"
#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/board/board.h"

namespace skerry {

// What changed by the weights' kinds and old exponents (of tensors that are BF16).
struct ChangeDetail {
  std::array<uint64_t, kTensorKinds> kinds{};  // units
  std::map<int, uint64_t> exponents;           // BF16 weights
};

struct MeasuredVersion {
  Version version;
  // Of the optimizer: by the trainer's counts where both versions have one, else one step a version; from the run's
  // first version on.
  StepRange steps;
  uint64_t changed = 0;  // storage units: elements, or bytes where they hold two codes
  uint64_t patch_bytes = 0;
  std::optional<ChangeDetail> detail;
};

// Versions `first` to `last` of a run or one of its views, from their manifests alone. kInvalid where `first` is 0 or
// after `last`, kNotFound where gc has removed one. Versions after which the trainer's count did not rise, or is beyond
// kMostSteps, are left out.
Result<std::vector<MeasuredVersion>> ReadMeasured(const Board& board, const RunId& run, Version first, Version last);

// Fills in `detail`, by moving a copy of the run's checkpoint from the version before the first to the last one, in
// `folder`, which must be empty and may be removed afterwards. A version that is reached by another way than a patch
// from the one before gets none. Fetches an anchor and all patches.
Status ReadDetails(const Board& board, const RunId& run, std::vector<MeasuredVersion>& versions, const Path& folder,
                   int threads, Progress& progress);

}  // namespace skerry

#endif  // SKERRY_ABSORB_MEASURED_H_
