// The distribution of gaps between changed positions: geometric at the block's own density, from integers alone.
#ifndef SKERRY_PATCH_GAP_MODEL_H_
#define SKERRY_PATCH_GAP_MODEL_H_

#include <cstdint>

#include "skerry/patch/symbol_table.h"

namespace skerry {

// A gap (unchanged members before a change) is a quotient, coded with a static table, and `low_bits` raw bits. A
// quotient of `escape` or more is coded as the symbol `escape`, which subtracts as much, as often as needed.
struct GapModel {
  const SymbolTable* table;
  int low_bits;
  uint32_t escape;
};

// For 1 <= `changed` <= `members`. Both ends derive it from these two numbers (docs/patch-format.md, "Gaps").
GapModel GapModelFor(uint64_t members, uint64_t changed);

}  // namespace skerry

#endif  // SKERRY_PATCH_GAP_MODEL_H_
