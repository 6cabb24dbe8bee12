#include "skerry/patch/block.h"

#include <xxhash.h>

namespace skerry {
namespace {

template <typename T>
void Scatter(const BlockChanges& changes, std::byte* target) {
  constexpr size_t kAhead = 32;  // changes whose cache lines are asked for
  const std::byte* value = changes.values.data();
  const uint32_t* const positions = changes.positions.data();
  const size_t count = changes.positions.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(target + size_t{positions[i + kAhead]} * sizeof(T), 1);
    std::memcpy(target + size_t{positions[i]} * sizeof(T), value, sizeof(T));
    value += sizeof(T);
  }
}

}  // namespace

uint32_t BlockChecksum(const BlockChanges& changes) {
  const uint64_t seed =
      changes.all ? 0 : XXH3_64bits(changes.positions.data(), changes.positions.size() * sizeof(uint32_t));
  return static_cast<uint32_t>(XXH3_64bits_withSeed(changes.values.data(), changes.values.size(), seed));
}

void ApplyBlock(const BlockChanges& changes, std::byte* target) {
  if (changes.all) {
    std::memcpy(target, changes.values.data(), changes.values.size());
    return;
  }
  switch (changes.unit) {
    case 1: return Scatter<uint8_t>(changes, target);
    case 2: return Scatter<uint16_t>(changes, target);
    case 4: return Scatter<uint32_t>(changes, target);
    default: return Scatter<uint64_t>(changes, target);
  }
}

}  // namespace skerry
