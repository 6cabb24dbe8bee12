// Method `sparse-magnitude`: a strand for each class of the old value's magnitude. Decoding reads the old bytes of the
// whole block once.
#ifndef SKERRY_PATCH_SPARSE_MAGNITUDE_H_
#define SKERRY_PATCH_SPARSE_MAGNITUDE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "skerry/patch/block.h"
#include "skerry/patch/change_stream.h"
#include "skerry/patch/class_scan.h"
#include "skerry/patch/magnitude_model.h"
#include "skerry/patch/step_values.h"

namespace skerry {

// The changes of a block as their classes see them, in the order of their positions.
struct ClassedChanges {
  ClassCounts members{};  // of the block
  std::vector<uint8_t> class_of;
  std::vector<uint32_t> number_of;
  std::vector<StepToken> tokens;  // every symbol has a frequency in its class's table

  void Clear() {
    members = {};
    class_of.clear();
    number_of.clear();
    tokens.clear();
  }
};

// Appends the payload for at least one change to `out`.
void EncodeSparseMagnitude(const MagnitudeModel& model, const ClassedChanges& changes, Bytes& out);

// Decodes a block whose old bytes are `runs` into `changes` (its unit is set), and adds to moved[r] by how much they
// move the digest of run r's tensor. Untrusted: kCorrupt when the payload is not exactly a block of `count` changed
// units.
Status DecodeSparseMagnitude(ByteSpan payload, uint64_t count, DType dtype, const MagnitudeModel& model,
                             std::span<const OldRun> runs, BlockChanges& changes, std::span<RunningDigest> moved);

}  // namespace skerry

#endif  // SKERRY_PATCH_SPARSE_MAGNITUDE_H_
