// Makes the patch of a version, in one part or several, and stores it while it is still being made.
#ifndef SKERRY_PUBLISH_VERSION_ENCODER_H_
#define SKERRY_PUBLISH_VERSION_ENCODER_H_

#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/progress.h"
#include "skerry/base/task_queue.h"
#include "skerry/board/board.h"
#include "skerry/patch/encoder.h"
#include "skerry/publish/target.h"

namespace skerry {

// A part of a version's patch: over the tensors with some ordinals.
struct EncodedPart {
  std::vector<size_t> tensors;  // rising; empty: all, and then the patch may change the layout
  EncodeReceipt receipt;        // digests are those of these tensors
  Path spool;                   // the patch
  ObjectRef object;             // its size and SHA-256, and its key once that is known
};

// Compares these tensors of `snapshot` and `target` and encodes what changed to `spool`.
Result<EncodedPart> EncodePart(const TensorSource& snapshot, const TensorSource& target, std::vector<size_t> tensors,
                               std::vector<SideFileChange> side_files, const EncodeOptions& options, const Path& spool,
                               Progress& progress);

// Decodes and verifies the part as a reader will. kConflict when somebody wrote to the target while it was compared:
// that must not become a version that nobody can rebuild.
Status ProvePart(const EncodedPart& part, const TensorSource& snapshot, const Target& target, int threads,
                 Progress& progress);

// `tensors` as ranges.
std::vector<PatchPart::TensorRange> RangesOf(const std::vector<size_t>& tensors);

// Cuts all tensors of a layout into groups of about equal bytes, by ordinal; a single group is empty: all.
std::vector<std::vector<size_t>> GroupTensors(const Layout& layout, size_t groups);
// The same for all but some, which rise: at least one tensor is left. A single group lists them, too.
std::vector<std::vector<size_t>> GroupOtherTensors(const Layout& layout, const std::vector<size_t>& without,
                                                   size_t groups);

struct EncodedVersion {
  std::vector<PatchPart> parts;
  std::vector<Path> spools;  // of the parts
  std::vector<RunningDigest> base_digests, target_digests;
  Digest base_model, target_model;
  uint64_t changed = 0, tensors_changed = 0, patch_bytes = 0;
  double compare_seconds = 0, encode_seconds = 0;  // summed over threads
};

// Puts parts together: they must hold every tensor of both layouts once. Parts without changes are left out, as long as
// one is left.
Result<EncodedVersion> CombineParts(std::vector<EncodedPart> parts, const Layout& base, const Layout& target);

}  // namespace skerry

#endif  // SKERRY_PUBLISH_VERSION_ENCODER_H_
