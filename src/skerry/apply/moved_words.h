// How far changes that are known as positions and values move a running digest.
#ifndef SKERRY_APPLY_MOVED_WORDS_H_
#define SKERRY_APPLY_MOVED_WORDS_H_

#include <cstring>

#include "skerry/patch/block.h"
#include "skerry/tensors/running_digest.h"

namespace skerry {

// By the words that the changes touch, which are not all. `old` holds whole words; `index_of(word)` is where a word of
// it stands in the tensor.
template <typename IndexOf>
RunningDigest MovedWords(const BlockChanges& changes, ByteSpan old, IndexOf index_of) {
  RunningDigest moved;
  const auto unit = static_cast<size_t>(changes.unit);
  const size_t count = changes.positions.size();
  for (size_t i = 0; i < count;) {
    const size_t word = size_t{changes.positions[i]} * unit / 8;
    const uint64_t before = WordAt(old, word);
    uint64_t after = before;
    for (; i < count && size_t{changes.positions[i]} * unit / 8 == word; ++i) {
      const size_t byte = size_t{changes.positions[i]} * unit % 8;
      std::memcpy(reinterpret_cast<std::byte*>(&after) + byte, changes.values.data() + i * unit, unit);
    }
    const uint64_t index = index_of(word);
    moved += MixWord(index, after) - MixWord(index, before);
  }
  return moved;
}

}  // namespace skerry

#endif  // SKERRY_APPLY_MOVED_WORDS_H_
