// A block of changes in memory: what every method decodes to.
#ifndef SKERRY_PATCH_BLOCK_H_
#define SKERRY_PATCH_BLOCK_H_

#include <cstdint>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/result.h"
#include "skerry/patch/format.h"
#include "skerry/tensors/dtype.h"

namespace skerry {

// Replacement bits for some storage units of a run of units. Buffers are reused between blocks to spare allocations.
struct BlockChanges {
  int unit = 1;                     // bytes of a storage unit
  bool all = false;                 // every unit is replaced; `positions` is empty then
  std::vector<uint32_t> positions;  // rising, relative to the block's first unit
  Bytes values;                     // unit bytes a change, in the order of the positions

  size_t count() const { return values.size() / static_cast<size_t>(unit); }
};

// The checksum of a block: the low 32 bits of XXH3-64 over the values, seeded with XXH3-64 over the positions (as
// 32-bit integers; nothing when all units are replaced).
uint32_t BlockChecksum(const BlockChanges& changes);

// Writes the replacement bits over `target`, the block's units. Doing it twice is the same as once.
void ApplyBlock(const BlockChanges& changes, std::byte* target);

}  // namespace skerry

#endif  // SKERRY_PATCH_BLOCK_H_
