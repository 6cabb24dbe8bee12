#include "skerry/absorb/served_view.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace skerry {
namespace {

using Codes = ServedView::Codes;
using Blocks = ServedView::Blocks;

constexpr double kAllOnGrid = 1, kFp8OnGrid = 1 / 12.5, kNvfp4OnGrid = 1 / 6.1;

constexpr std::array<ServedView, 9> kViews = {{
    {.name = "bf16"},
    {.name = "fp16", .codes = Codes::kFp16},
    {.name = "fp8-tensor", .codes = Codes::kE4M3, .blocks = Blocks::kTensor, .scale_bits = 32, .on_grid = kFp8OnGrid},
    {.name = "fp8-channel", .codes = Codes::kE4M3, .blocks = Blocks::kRow, .scale_bits = 32, .on_grid = kFp8OnGrid},
    {.name = "fp8-block", .codes = Codes::kE4M3, .blocks = Blocks::kSquare, .scale_bits = 32, .on_grid = kFp8OnGrid},
    {.name = "mxfp8",
     .codes = Codes::kE4M3,
     .blocks = Blocks::kGroup,
     .group = 32,
     .power_of_two = true,
     .scale_bits = 8,
     .on_grid = kAllOnGrid},
    {.name = "mxfp4",
     .codes = Codes::kE2M1,
     .blocks = Blocks::kGroup,
     .group = 32,
     .power_of_two = true,
     .scale_bits = 8,
     .on_grid = kAllOnGrid},
    {.name = "nvfp4",
     .codes = Codes::kE2M1,
     .blocks = Blocks::kGroup,
     .group = 16,
     .scale_bits = 8,
     .on_grid = kNvfp4OnGrid},
    {.name = "nf4", .codes = Codes::kNf4, .blocks = Blocks::kFlat, .group = 64, .scale_bits = 32},
}};

// The numbers that NF4's codes stand for (Dettmers et al. 2023, arXiv:2305.14314, appendix E). Those above 0 are closer
// together than those below; a weight's sign is not known here, so that the mean of both gaps is taken.
constexpr std::array<float, 8> kNf4Below = {0,           0.09105004F, 0.18477343F, 0.28444138F,
                                            0.39491748F, 0.52507305F, 0.69619280F, 1};
constexpr std::array<float, 9> kNf4Above = {
    0, 0.07958030F, 0.16093020F, 0.24611230F, 0.33791524F, 0.44070983F, 0.56261700F, 0.72295684F, 1};

template <size_t kCount>
float TableGap(const std::array<float, kCount>& levels, float scaled) {
  const auto above = std::upper_bound(levels.begin() + 1, levels.end() - 1, scaled);
  return *above - *(above - 1);
}

// 2^floor(log2(x)) of a positive normal number.
float PowerOfTwoBelow(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7F80'0000U); }

// The largest magnitude that a code stands for.
float Largest(Codes codes) {
  switch (codes) {
    case Codes::kE4M3: return 448;
    case Codes::kE2M1: return 6;
    default: return 1;
  }
}

uint64_t Pieces(uint64_t whole, uint64_t piece) { return (whole + piece - 1) / piece; }

}  // namespace

int ServedView::code_bits() const {
  switch (codes) {
    case Codes::kBf16:
    case Codes::kFp16: return 16;
    case Codes::kE4M3: return 8;
    case Codes::kE2M1:
    case Codes::kNf4: return 4;
  }
  return 0;
}

bool ServedView::Fits(std::span<const uint64_t> shape) const {
  if (shape.size() != 2) return false;
  if (blocks == Blocks::kGroup) return shape[1] % group == 0;
  return blocks != Blocks::kFlat || shape[0] * shape[1] % 2 == 0;
}

uint64_t ServedView::ScalesOf(std::span<const uint64_t> shape) const {
  switch (blocks) {
    case Blocks::kNone: return 0;
    case Blocks::kTensor: return 1;
    case Blocks::kRow: return shape[0];
    case Blocks::kSquare: return Pieces(shape[0], kSquareSide) * Pieces(shape[1], kSquareSide);
    case Blocks::kGroup: return shape[0] * (shape[1] / group);
    case Blocks::kFlat: return Pieces(shape[0] * shape[1], group);
  }
  return 0;
}

float ServedView::ScaleFor(float largest) const {
  if (!(largest >= 0x1p-100F)) return 1;  // all zero, or nearly: no step is as small as these cells
  if (!power_of_two) return largest / Largest(codes);
  // The largest magnitude gets the format's largest exponent; what would be beyond its largest number, the next scale.
  const float power = PowerOfTwoBelow(largest);
  return (largest >= 1.75F * power ? 2 * power : power) / PowerOfTwoBelow(Largest(codes));
}

float ServedView::GapAt(float scaled) const {
  switch (codes) {
    case Codes::kBf16: return std::max(PowerOfTwoBelow(scaled) * 0x1p-7F, 0x1p-133F);
    case Codes::kFp16: return std::max(PowerOfTwoBelow(scaled) * 0x1p-10F, 0x1p-24F);
    case Codes::kE4M3: return scaled < 0x1p-6F ? 0x1p-9F : PowerOfTwoBelow(std::min(scaled, 448.0F)) * 0x1p-3F;
    case Codes::kE2M1: return scaled < 2 ? 0.5F : scaled < 4 ? 1 : 2;
    case Codes::kNf4: {
      const float below = TableGap(kNf4Below, scaled), above = TableGap(kNf4Above, scaled);
      return 2 * below * above / (below + above);  // the chance to change goes with 1 / gap
    }
  }
  return 0;
}

std::span<const ServedView> ServedViews() { return kViews; }

const ServedView* FindServedView(std::string_view name) {
  const auto found =
      std::find_if(kViews.begin(), kViews.end(), [&](const ServedView& view) { return view.name == name; });
  return found == kViews.end() ? nullptr : &*found;
}

}  // namespace skerry
