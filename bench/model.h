// A checkpoint's tensors in memory, and what changed between two of them: what every codec here is given.
#ifndef SKERRY_BENCH_MODEL_H_
#define SKERRY_BENCH_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "skerry/diff/find_changes.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/tensor_source.h"

namespace skerry {

// All tensors of a checkpoint, mapped where the host allows it.
struct Model {
  static Result<Model> Of(const TensorSource& source);

  const Layout* layout = nullptr;
  std::vector<ByteSpan> tensors;  // in layout order
  std::vector<Bytes> owned;       // of those that could not be mapped
};

// A copy of a model that codecs write into.
struct WorkingCopy {
  explicit WorkingCopy(const Layout& layout);

  void CopyFrom(const Model& model);
  bool Equals(const Model& model) const;

  Bytes memory;
  std::vector<MutableByteSpan> tensors;
};

// Decodes Skerry's patch, block after block, and writes the changes into `copy`, which holds the old version.
Status ApplyPatch(const Patch& patch, const std::vector<PlacedBlock>& blocks, const Model& before, WorkingCopy& copy);

// Calls run(T{}) with the unsigned integer of `unit` bytes.
template <typename Run>
void WithUnit(int unit, Run&& run) {
  switch (unit) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    case 8: return run(uint64_t{});
    default: std::abort();
  }
}

// Calls run(first unit, positions relative to it) for each run of units, rising; the compared bytes are still in the
// cache then.
template <typename Run>
void ForChanges(ByteSpan before, ByteSpan after, int unit, Run&& run) {
  constexpr size_t kRun = 1 << 14;
  uint32_t positions[kRun + 64];
  const size_t units = before.size() / static_cast<size_t>(unit);
  for (size_t first = 0; first < units; first += kRun) {
    const size_t offset = first * static_cast<size_t>(unit);
    const size_t count =
        FindChanges(before.data() + offset, after.data() + offset, std::min(kRun, units - first), unit, positions);
    if (count != 0) run(first, std::span<const uint32_t>(positions, count));
  }
}

}  // namespace skerry

#endif  // SKERRY_BENCH_MODEL_H_
