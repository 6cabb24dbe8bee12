#include "skerry/diff/fp8_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "skerry/base/simd.h"
#include "skerry/diff/fp8_block_kernel.h"

namespace skerry {
namespace {

// What `master * forward` stays below while no weight comes near clipping, whatever the roundings between.
constexpr float kFarFromClipping = kE4M3Clips - 0.25f;

size_t BlocksOf(const Fp8BlockRow& row) { return (row.columns + kFp8BlockSide - 1) / kFp8BlockSide; }
size_t BytesOf(DType dtype) { return static_cast<size_t>(DTypeUnit(dtype)); }

float MasterAt(const Fp8BlockRow& row, uint64_t element) {
  if (row.dtype == DType::kF32) return LoadLe<float>(row.masters + 4 * element);
  return std::bit_cast<float>(static_cast<uint32_t>(LoadLe<uint16_t>(row.masters + 2 * element)) << 16);
}

std::optional<uint64_t> FirstNotFinite(const Fp8BlockRow& row) {
  for (uint64_t i = 0; i < row.rows * row.columns; ++i) {
    if (!std::isfinite(MasterAt(row, i))) return i;
  }
  return std::nullopt;
}

// One over a frozen scale; infinite for what is no number to divide by.
float ReciprocalOf(float inverse) { return inverse > 0 && std::isfinite(inverse) ? 1 / inverse : HUGE_VALF; }

// What the masters of each block are multiplied by, and whether that comes from a frozen scale.
struct BlockScales {
  explicit BlockScales(size_t blocks) : forward(blocks), frozen(blocks) {}

  std::vector<float> forward;
  std::vector<bool> frozen;
};

// Each block's scale as it is to be, given its largest magnitude. Its bytes go into changes.scales.
BlockScales DecideScales(const Fp8BlockRow& row, Fp8Scales policy, const std::vector<float>& largest,
                         Fp8RowChanges& changes) {
  BlockScales scales(largest.size());
  const size_t unit = BytesOf(row.scale_dtype);
  changes.scales.assign(row.scales, row.scales + largest.size() * unit);
  for (size_t b = 0; b < largest.size(); ++b) {
    std::byte* stored = changes.scales.data() + b * unit;
    if (policy == Fp8Scales::kFrozen) {
      const float inverse = LoadFp8Scale(stored, row.scale_dtype);
      if (Fp8ScaleStays(inverse, largest[b])) {
        scales.forward[b] = 1 / inverse;
        scales.frozen[b] = true;
        continue;
      }
    }
    const bool power = policy == Fp8Scales::kPowerOfTwo || row.scale_dtype == DType::kF8E8M0;
    const Fp8Scale scale = MakeFp8Scale(power ? Fp8Scales::kPowerOfTwo : Fp8Scales::kRecompute, largest[b]);
    StoreFp8Scale(stored, row.scale_dtype, scale.inverse);
    scales.forward[b] = scale.forward;
    changes.rescaled += std::memcmp(stored, row.scales + b * unit, unit) != 0;
  }
  return scales;
}

// Whether a weight lies so near the boundary of two codes that it may keep the served one.
bool KeepsCode(float master, float forward, std::byte served) {
  const auto bits = std::bit_cast<uint32_t>(forward);  // of a number above 0: the next ones are one more and one less
  return std::ranges::any_of(std::array{bits + 1, bits - 1}, [&](uint32_t beside) {
    return static_cast<std::byte>(ToE4M3(master * std::bit_cast<float>(beside))) == served;
  });
}

// Takes back the changes of weights under frozen scales that only lie on a boundary.
void KeepBoundaries(const Fp8BlockRow& row, const BlockScales& scales, Fp8RowChanges& changes) {
  size_t left = 0;
  for (size_t i = 0; i < changes.positions.size(); ++i) {
    const uint64_t position = changes.positions[i];
    const size_t block = position % row.columns / kFp8BlockSide;
    if (scales.frozen[block] && KeepsCode(MasterAt(row, position), scales.forward[block], row.codes[position])) {
      continue;
    }
    changes.positions[left] = position;
    changes.codes[left++] = changes.codes[i];
  }
  changes.positions.resize(left);
  changes.codes.resize(left);
}

// The largest magnitude of each block; as high as an infinity where one is not finite.
std::vector<float> LargestOf(const Fp8BlockRow& row) {
  const size_t unit = BytesOf(row.dtype), values = kFp8LargestBytes / unit;
  Bytes kept(BlocksOf(row) * kFp8LargestBytes);
  for (size_t r = 0; r < row.rows; ++r) {
    RaiseFp8LargestVector(row.masters + r * row.columns * unit, row.dtype, row.columns, kept.data());
  }
  std::vector<float> largest(BlocksOf(row));
  const Fp8BlockRow as_masters{.masters = kept.data(), .dtype = row.dtype};
  for (size_t i = 0; i < largest.size() * values; ++i) {
    const float value = MasterAt(as_masters, i);
    largest[i / values] = std::isfinite(value) ? std::max(largest[i / values], value) : HUGE_VALF;
  }
  return largest;
}

// Makes all codes with these scales. False, and half done, where something comes near clipping; not looked at for
// scales that were made for these masters.
bool CompareRows(const Fp8BlockRow& row, const std::vector<float>& forward, bool may_clip, Fp8RowChanges& changes) {
  thread_local std::vector<uint32_t> positions;
  thread_local Bytes made;
  positions.resize(std::max(positions.size(), row.columns));
  made.resize(std::max(made.size(), row.columns));
  for (size_t r = 0; r < row.rows; ++r) {
    const uint64_t first = r * row.columns;
    const Fp8RowCompared compared =
        CompareFp8RowVector(row.masters + first * BytesOf(row.dtype), row.dtype, row.columns, forward.data(),
                            row.codes + first, positions.data(), made.data());
    if (may_clip && compared.largest > std::bit_cast<uint32_t>(kFarFromClipping)) return false;
    for (size_t i = 0; i < compared.changed; ++i) changes.positions.push_back(first + positions[i]);
    changes.codes.insert(changes.codes.end(), made.begin(), made.begin() + static_cast<ptrdiff_t>(compared.changed));
  }
  return true;
}

// In one pass, with the scales that are served; false where they may not all stay.
bool CompareFrozen(const Fp8BlockRow& row, Fp8RowChanges& changes) {
  BlockScales scales(BlocksOf(row));
  const size_t unit = BytesOf(row.scale_dtype);
  for (size_t b = 0; b < scales.forward.size(); ++b) {
    const float inverse = LoadFp8Scale(row.scales + b * unit, row.scale_dtype);
    scales.forward[b] = ReciprocalOf(inverse);
    scales.frozen[b] = true;
    if (!std::isfinite(scales.forward[b]) || inverse == 1) return false;
  }
  if (!CompareRows(row, scales.forward, /*may_clip=*/true, changes)) return false;
  KeepBoundaries(row, scales, changes);
  changes.scales.assign(row.scales, row.scales + scales.forward.size() * unit);
  return true;
}

}  // namespace

std::optional<Fp8Scales> Fp8ScalesFromName(std::string_view name) {
  if (name == "frozen") return Fp8Scales::kFrozen;
  if (name == "recompute") return Fp8Scales::kRecompute;
  if (name == "power-of-two") return Fp8Scales::kPowerOfTwo;
  return std::nullopt;
}

Fp8Scale MakeFp8Scale(Fp8Scales policy, float amax) {
  const float forward = amax > 0 ? 1 / amax * kE4M3Largest : 1;
  if (policy == Fp8Scales::kRecompute) {
    if (!std::isfinite(forward)) return {.inverse = 1, .forward = 1};
    return {.inverse = 1 / forward, .forward = forward};
  }
  // The logarithm is rounded to F32 before its ceiling is taken, as there: just above a power of two it gives that one.
  const auto logarithm = static_cast<float>(std::log2(static_cast<double>(std::max(1 / forward, FLT_MIN))));
  const float inverse = std::ldexp(1.0f, static_cast<int>(std::ceil(logarithm)));
  return {.inverse = inverse, .forward = 1 / inverse};
}

bool Fp8ScaleStays(float inverse, float amax) {
  if (!std::isfinite(ReciprocalOf(inverse))) return false;
  return amax <= kE4M3Clips * inverse && (inverse != 1 || amax == 0);
}

uint8_t ToE4M3(float value) {
  constexpr uint32_t kSmallestNormal = 0x3C800000;  // 2^-6
  constexpr float kMagic = 0x1p14f;                 // its last place is 2^-9, the step of the subnormal ones
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 24 & 0x80, size = std::min(bits & 0x7FFFFFFF, std::bit_cast<uint32_t>(kE4M3Largest));
  if (size < kSmallestNormal) {
    return static_cast<uint8_t>(
        sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(size) + kMagic) - std::bit_cast<uint32_t>(kMagic)));
  }
  // The exponent's bias is 120 less; a carry out of the fraction moves it up.
  return static_cast<uint8_t>(sign | (size - (120u << 23) + 0x7FFFF + (size >> 20 & 1)) >> 20);
}

float LoadFp8Scale(const std::byte* from, DType dtype) {
  if (dtype == DType::kF32) return LoadLe<float>(from);
  const auto exponent = static_cast<uint32_t>(*from);
  if (exponent == 0xFF) return std::nanf("");
  return std::bit_cast<float>(exponent == 0 ? 0x00400000 : exponent << 23);
}

void StoreFp8Scale(std::byte* to, DType dtype, float inverse) {
  if (dtype == DType::kF32) return StoreLe(to, inverse);
  *to = static_cast<std::byte>(std::bit_cast<uint32_t>(inverse) >> 23);
}

void CompareFp8BlockRowScalar(const Fp8BlockRow& row, Fp8Scales policy, Fp8RowChanges& changes) {
  changes = {};
  changes.not_finite = FirstNotFinite(row);
  if (changes.not_finite) return;
  std::vector<float> largest(BlocksOf(row));
  for (uint64_t i = 0; i < row.rows * row.columns; ++i) {
    float& block = largest[i % row.columns / kFp8BlockSide];
    block = std::max(block, std::fabs(MasterAt(row, i)));
  }
  const BlockScales scales = DecideScales(row, policy, largest, changes);
  for (uint64_t i = 0; i < row.rows * row.columns; ++i) {
    const float forward = scales.forward[i % row.columns / kFp8BlockSide];
    const auto code = static_cast<std::byte>(ToE4M3(MasterAt(row, i) * forward));
    if (code == row.codes[i]) continue;
    changes.positions.push_back(i);
    changes.codes.push_back(code);
  }
  if (policy == Fp8Scales::kFrozen) KeepBoundaries(row, scales, changes);
}

void CompareFp8BlockRow(const Fp8BlockRow& row, Fp8Scales policy, Fp8RowChanges& changes) {
  if (SimdIsScalar()) return CompareFp8BlockRowScalar(row, policy, changes);
  changes = {};
  if (policy == Fp8Scales::kFrozen) {
    if (CompareFrozen(row, changes)) return;
    changes = {};
  }
  const std::vector<float> largest = LargestOf(row);
  if (std::ranges::any_of(largest, [](float one) { return !std::isfinite(one); })) {
    changes.not_finite = FirstNotFinite(row);
    return;
  }
  const BlockScales scales = DecideScales(row, policy, largest, changes);
  CompareRows(row, scales.forward, /*may_clip=*/false, changes);
  if (policy == Fp8Scales::kFrozen) KeepBoundaries(row, scales, changes);
}

}  // namespace skerry
