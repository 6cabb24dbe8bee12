#include "skerry/patch/byte_planes.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace skerry {
namespace {

// Units are read again for every two planes, so many bytes at a time that they stay in the first-level cache.
constexpr size_t kTileBytes = 8 << 10;

// Two planes at a time: what compilers vectorise well.
template <typename T, bool kRotated, size_t kPlane>
void SplitTwo(const std::byte* __restrict from, size_t count, std::byte* __restrict low, std::byte* __restrict high) {
  for (size_t i = 0; i < count; ++i) {
    T value = LoadLe<T>(from + i * sizeof(T));
    if constexpr (kRotated) value = std::rotl(value, 1);
    low[i] = static_cast<std::byte>(value >> 8 * kPlane);
    high[i] = static_cast<std::byte>(value >> 8 * (kPlane + 1));
  }
}

template <typename T, bool kRotated>
void Split(ByteSpan values, std::byte* planes) {
  const size_t units = values.size() / sizeof(T), tile = kTileBytes / sizeof(T);
  for (size_t first = 0; first < units; first += tile) {
    const size_t count = std::min(tile, units - first);
    const std::byte* from = values.data() + first * sizeof(T);
    [&]<size_t... kPair>(std::index_sequence<kPair...>) {
      (SplitTwo<T, kRotated, 2 * kPair>(from, count, planes + 2 * kPair * units + first,
                                        planes + (2 * kPair + 1) * units + first),
       ...);
    }(std::make_index_sequence<sizeof(T) / 2>());
  }
}

template <typename T, bool kRotated>
void Join(const std::array<const std::byte*, kMaxPlanes>& planes, MutableByteSpan values) {
  const std::array<const std::byte*, kMaxPlanes> from = planes;  // which no store can change
  std::byte* __restrict to = values.data();
  for (size_t i = 0, units = values.size() / sizeof(T); i < units; ++i) {
    T value = 0;
    for (size_t p = 0; p < sizeof(T); ++p) {
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(from[p][i]) << 8 * p));
    }
    if constexpr (kRotated) value = std::rotr(value, 1);
    StoreLe(to + i * sizeof(T), value);
  }
}

}  // namespace

void SplitPlanes(ByteSpan values, DType dtype, std::byte* planes) {
  const bool rotated = PlanesAreRotated(dtype);
  switch (DTypeUnit(dtype)) {
    case 1: std::copy(values.begin(), values.end(), planes); return;
    case 2: return rotated ? Split<uint16_t, true>(values, planes) : Split<uint16_t, false>(values, planes);
    case 4: return rotated ? Split<uint32_t, true>(values, planes) : Split<uint32_t, false>(values, planes);
    default: return rotated ? Split<uint64_t, true>(values, planes) : Split<uint64_t, false>(values, planes);
  }
}

void JoinPlanes(const std::array<const std::byte*, kMaxPlanes>& planes, DType dtype, MutableByteSpan values) {
  const bool rotated = PlanesAreRotated(dtype);
  switch (DTypeUnit(dtype)) {
    case 1: std::copy_n(planes[0], values.size(), values.begin()); return;
    case 2: return rotated ? Join<uint16_t, true>(planes, values) : Join<uint16_t, false>(planes, values);
    case 4: return rotated ? Join<uint32_t, true>(planes, values) : Join<uint32_t, false>(planes, values);
    default: return rotated ? Join<uint64_t, true>(planes, values) : Join<uint64_t, false>(planes, values);
  }
}

}  // namespace skerry
