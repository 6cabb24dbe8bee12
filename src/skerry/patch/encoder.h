// Compares two models and writes what changed as a patch, in one read of both.
#ifndef SKERRY_PATCH_ENCODER_H_
#define SKERRY_PATCH_ENCODER_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "skerry/base/progress.h"
#include "skerry/patch/patch_file.h"
#include "skerry/tensors/running_digest.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// How hard the encoder looks for a smaller patch.
enum class Level {
  kFast,     // decoding touches only what changed: its cost grows with the changes
  kCompact,  // the smallest: decoding reads the base once, at close to memory speed
};

// "fast" or "compact".
std::optional<Level> LevelFromName(std::string_view name);

struct EncodeOptions {
  int threads = 1;
  Level level = Level::kCompact;
  // Write names, dtypes and shapes of the touched tensors into the patch, so that it explains itself.
  bool with_names = true;
  // Write the target's layout into the patch where it is not the base's. Without it the reader must have the layout.
  bool with_layout = true;
  // Accept added and removed tensors and changed dtypes and shapes; such tensors travel whole.
  bool allow_structural = false;
  // The tensors are these boxes of a larger model's, in their order (BoxView): the patch says so.
  std::span<const TensorBox> boxes = {};
};

struct EncodeReceipt {
  PatchInfo info;
  std::vector<RunningDigest> base_digests;    // in the base's layout order
  std::vector<RunningDigest> target_digests;  // in the target's layout order
  uint64_t tensors_changed = 0, tensors = 0;  // of the target
  uint64_t side_files_changed = 0;
  uint64_t target_bytes = 0;  // of all tensors
  uint64_t patch_bytes = 0;
  double compare_seconds = 0;  // compare and digest, summed over threads
  double encode_seconds = 0;   // tokens and entropy coding, summed over threads
};

// What a caller knows already about two models of the same tensors (because it made one from the other).
struct KnownChanges {
  std::vector<RunningDigest> base_digests, target_digests;  // in layout order
  std::vector<bool> touched_cells;                          // by cell (see cell_order.h): others are equal
};

// Encodes base -> target into `sink`. Memory is bounded by the blocks in flight (a few MiB a thread). The result does
// not depend on the number of threads. With `known`, untouched cells are not compared, and nothing is digested.
// Different tensors are kInvalid with a list of the differences unless allowed.
Result<EncodeReceipt> EncodePatch(const TensorSource& base, const TensorSource& target,
                                  std::vector<SideFileChange> side_files, const EncodeOptions& options, ByteSink& sink,
                                  Progress& progress, const KnownChanges* known = nullptr);

}  // namespace skerry

#endif  // SKERRY_PATCH_ENCODER_H_
