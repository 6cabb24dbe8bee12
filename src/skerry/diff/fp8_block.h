// A matrix of a trainer's masters as engines serve it in FP8: E4M3 codes, and a scale for each block of 128 x 128.
//
// The definition is transformers' Fp8Quantize (integrations/finegrained_fp8.py), in F32 and to the bit: of a block
// whose largest magnitude is `amax`,
//   forward = 448 / amax, inverse = 1 / forward, code = E4M3(clamp(master * forward, -448, 448)),
// where 448 / amax is (1 / amax) * 448, as PyTorch divides a number by a tensor. The layout's scale tensor
// (weight_scale_inv) holds the inverse: served weight = code * inverse. Blocks at the right and lower edges are cut.
#ifndef SKERRY_DIFF_FP8_BLOCK_H_
#define SKERRY_DIFF_FP8_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/tensors/dtype.h"

namespace skerry {

// Rows and columns of a block.
inline constexpr size_t kFp8BlockSide = 128;
// The largest E4M3 code; what is beyond half a step more, 464, clips.
inline constexpr float kE4M3Largest = 448, kE4M3Clips = 464;

// Where a block's scale comes from. A step that only nudges weights leaves most codes alone, unless their scale moves.
enum class Fp8Scales : uint8_t {
  // The one that is served stays, unless a weight would clip under it (amax > 464 * inverse), nothing is known of it
  // (inverse 1 is what a block of zeros gets, and something is in it now), or it is no number to divide by. Then it is
  // made anew: as kRecompute does, or as kPowerOfTwo where scales are F8_E8M0. Where it stays, `forward` is 1 /
  // inverse,
  // which may be other than the one that the served codes were made with; so a weight that lies on the boundary of two
  // codes keeps the served one: where that is what a `forward` of one unit in the last place more or less gives.
  kFrozen,
  // From the masters, each time. A block of zeros, or of so small ones that 448 / amax is infinite: 1.
  kRecompute,
  // From the masters, each time, inverse rounded up to a power of two, at least 2^-126: transformers' `ue8m0`.
  kPowerOfTwo,
};
// "frozen", "recompute", "power-of-two".
std::optional<Fp8Scales> Fp8ScalesFromName(std::string_view name);

struct Fp8Scale {
  float inverse, forward;
};
// The scale of a block of this largest magnitude, which is finite. Without kFrozen.
Fp8Scale MakeFp8Scale(Fp8Scales policy, float amax);
// Whether a frozen scale stays.
bool Fp8ScaleStays(float inverse, float amax);

// Rounds to the nearest E4M3 value, ties to even, beyond 448 to 448. For numbers.
uint8_t ToE4M3(float value);

// A scale as a tensor of `dtype`, kF32 or kF8E8M0, holds it. Of kF8E8M0, only powers of two from 2^-127 on can be
// stored.
float LoadFp8Scale(const std::byte* from, DType dtype);
void StoreFp8Scale(std::byte* to, DType dtype, float inverse);

// Up to 128 rows of a matrix: one row of blocks, and what is served for it.
struct Fp8BlockRow {
  const std::byte* masters;  // [rows, columns], row-major, at any alignment
  DType dtype;               // theirs: kF32 or kBF16
  size_t rows, columns;
  const std::byte* codes;   // served, [rows, columns]
  const std::byte* scales;  // served, one for each 128 columns or fewer
  DType scale_dtype;        // kF32 or kF8E8M0; not kF8E8M0 with kRecompute
};

// What is to be served of it now.
struct Fp8RowChanges {
  std::vector<uint64_t> positions;  // of codes that differ, among the rows' elements, rising
  Bytes codes;                      // the new ones, one for each position
  Bytes scales;                     // all of the row
  uint64_t rescaled = 0;            // of these, how many have other bits than the served ones
  // The first master that is NaN or infinite; then nothing else counts.
  std::optional<uint64_t> not_finite;
};

// Casts and compares in one pass over masters and codes; where scales come from the masters, another pass over the same
// rows goes before. The result does not depend on the instruction set. `changes` is emptied first.
void CompareFp8BlockRow(const Fp8BlockRow& row, Fp8Scales policy, Fp8RowChanges& changes);

// The specification of CompareFp8BlockRow.
void CompareFp8BlockRowScalar(const Fp8BlockRow& row, Fp8Scales policy, Fp8RowChanges& changes);

}  // namespace skerry

#endif  // SKERRY_DIFF_FP8_BLOCK_H_
