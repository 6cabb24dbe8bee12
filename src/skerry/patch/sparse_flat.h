// Method `sparse-flat`: gaps between changed positions and steps of their values, both entropy-coded; decoding touches
// only the changed units.
#ifndef SKERRY_PATCH_SPARSE_FLAT_H_
#define SKERRY_PATCH_SPARSE_FLAT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "skerry/patch/block.h"
#include "skerry/patch/symbol_table.h"
#include "skerry/patch/value_step.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// Appends the payload for `positions` (rising, at least one) among `units` units and their value tokens to `out`.
void EncodeSparseFlat(uint64_t units, std::span<const uint32_t> positions, std::span<const StepToken> tokens,
                      const SymbolTable& value_table, Bytes& out);

// Decodes `count` changes of a block of `units` units, whose old bytes are `before`, into `changes` (its unit is set),
// and adds to `moved` by how much they move the tensor's digest (`first_word` is the index of the block's first 64-bit
// word). Untrusted: kCorrupt when the payload is not exactly such a block.
Status DecodeSparseFlat(ByteSpan payload, uint64_t units, uint64_t count, DType dtype, const SymbolTable& value_table,
                        ByteSpan before, uint64_t first_word, BlockChanges& changes, RunningDigest& moved);

}  // namespace skerry

#endif  // SKERRY_PATCH_SPARSE_FLAT_H_
