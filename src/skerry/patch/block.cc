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

// Words are small, and changes come in rising order: gather those of one word, then mix its old and new value once.
template <typename T>
RunningDigest SparseDelta(const BlockChanges& changes, ByteSpan before, uint64_t first_word) {
  constexpr uint32_t kPerWord = 8 / sizeof(T);
  const uint32_t* position = changes.positions.data();
  const uint32_t* const end = position + changes.positions.size();
  const std::byte* value = changes.values.data();
  RunningDigest delta;
  while (position != end) {
    const uint32_t word = *position / kPerWord;
    const size_t at = size_t{word} * 8;
    std::byte bytes[8] = {};
    if (at + 8 <= before.size()) [[likely]] {
      std::memcpy(bytes, before.data() + at, 8);
    } else {
      std::memcpy(bytes, before.data() + at, before.size() - at);
    }
    const auto old_word = LoadLe<uint64_t>(bytes);
    do {
      std::memcpy(bytes + *position % kPerWord * sizeof(T), value, sizeof(T));
      value += sizeof(T);
      ++position;
    } while (position != end && *position / kPerWord == word);
    delta += MixWord(first_word + word, LoadLe<uint64_t>(bytes)) - MixWord(first_word + word, old_word);
  }
  return delta;
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

RunningDigest DigestDelta(const BlockChanges& changes, ByteSpan before, uint64_t first_word) {
  if (changes.all) return DigestWords(changes.values, first_word) - DigestWords(before, first_word);
  switch (changes.unit) {
    case 1: return SparseDelta<uint8_t>(changes, before, first_word);
    case 2: return SparseDelta<uint16_t>(changes, before, first_word);
    case 4: return SparseDelta<uint32_t>(changes, before, first_word);
    default: return SparseDelta<uint64_t>(changes, before, first_word);
  }
}

}  // namespace skerry
