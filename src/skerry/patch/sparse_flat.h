// Method `sparse-flat`: one strand whose members are all units of the block. Decoding touches only the changed units.
#ifndef SKERRY_PATCH_SPARSE_FLAT_H_
#define SKERRY_PATCH_SPARSE_FLAT_H_

#include <cstdint>
#include <span>

#include "skerry/patch/block.h"
#include "skerry/patch/change_stream.h"
#include "skerry/patch/step_values.h"

namespace skerry {

// Appends the payload for `positions` (rising, at least one) among `units` units and their value tokens to `out`.
void EncodeSparseFlat(uint64_t units, std::span<const uint32_t> positions, std::span<const StepToken> tokens,
                      const SymbolTable& value_table, Bytes& out);

// Decodes `count` changes of a block whose old bytes are `runs` into `changes` (its unit is set), and adds to moved[r]
// by how much they move the digest of run r's tensor. Untrusted: kCorrupt when the payload is not exactly such a block.
Status DecodeSparseFlat(ByteSpan payload, uint64_t count, DType dtype, const SymbolTable& value_table,
                        std::span<const OldRun> runs, BlockChanges& changes, std::span<RunningDigest> moved);

}  // namespace skerry

#endif  // SKERRY_PATCH_SPARSE_FLAT_H_
