#include "skerry/diff/find_changes.h"

#include <cstring>

#include "skerry/base/simd.h"
#include "skerry/diff/compare_kernel.h"

namespace skerry {
namespace {

template <typename T>
size_t FindScalar(const std::byte* before, const std::byte* after, size_t units, uint32_t* positions) {
  size_t count = 0;
  for (size_t i = 0; i < units; ++i) {
    T a, b;
    std::memcpy(&a, before + i * sizeof(T), sizeof(T));
    std::memcpy(&b, after + i * sizeof(T), sizeof(T));
    if (a != b) positions[count++] = static_cast<uint32_t>(i);
  }
  return count;
}

}  // namespace

size_t FindChangesScalar(const std::byte* before, const std::byte* after, size_t units, int unit, uint32_t* positions) {
  switch (unit) {
    case 1: return FindScalar<uint8_t>(before, after, units, positions);
    case 2: return FindScalar<uint16_t>(before, after, units, positions);
    case 4: return FindScalar<uint32_t>(before, after, units, positions);
    default: return FindScalar<uint64_t>(before, after, units, positions);
  }
}

size_t FindChanges(const std::byte* before, const std::byte* after, size_t units, int unit, uint32_t* positions) {
  if (SimdIsScalar()) return FindChangesScalar(before, after, units, unit, positions);
  return FindChangesVector(before, after, units, unit, positions);
}

size_t FindChangesAndDigest(const std::byte* before, const std::byte* after, size_t units, int unit,
                            uint64_t first_word, uint32_t* positions, RunningDigest& digest) {
  if (SimdIsScalar()) {
    digest = DigestWordsScalar({before, units * static_cast<size_t>(unit)}, first_word);
    return FindChangesScalar(before, after, units, unit, positions);
  }
  return FindChangesAndDigestVector(before, after, units, unit, first_word, positions, digest);
}

size_t CountChanges(const std::byte* before, const std::byte* after, size_t units, int unit) {
  return CountChangesVector(before, after, units, unit);
}

}  // namespace skerry
