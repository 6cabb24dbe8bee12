// The views that engines serve, as far as it matters where weights change: which weights share a scale, and how far
// apart the numbers are between which a weight lies.
#ifndef SKERRY_ABSORB_SERVED_VIEW_H_
#define SKERRY_ABSORB_SERVED_VIEW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace skerry {

// As skerry.views makes them: names and blocks are the same.
struct ServedView {
  enum class Codes { kBf16, kFp16, kE4M3, kE2M1, kNf4 };
  enum class Blocks {
    kNone,  // no scales
    kTensor,
    kRow,
    kSquare,  // kSquareSide rows and columns
    kGroup,   // `group` weights of a row
    kFlat,    // `group` weights in the order of memory, across rows
  };

  std::string_view name;
  Codes codes = Codes::kBf16;
  Blocks blocks = Blocks::kNone;
  uint64_t group = 0;
  bool power_of_two = false;  // scales are
  uint64_t scale_bits = 0;    // of the scale of a block
  // Which share of the boundaries between codes are numbers of BF16, in a block whose largest weight is one. All, where
  // scales are powers of two. A boundary is odd * largest / (448 * a power of two) in FP8: that is a number of eight
  // digits for 1 in 12.5 pairs of `largest` and `odd`; of NVFP4, with its scales of four digits, for 1 in 6.1
  // (served_view_test.cc counts them). None in NF4, whose table is of irrational numbers.
  double on_grid = 0;

  int code_bits() const;
  // Whether a quantised weight of this shape can be stored so; else it stays in BF16.
  bool Fits(std::span<const uint64_t> shape) const;
  // Scales of a weight of this shape.
  uint64_t ScalesOf(std::span<const uint64_t> shape) const;
  // The scale of a block whose largest magnitude is `largest`; 1 for 0.
  float ScaleFor(float largest) const;
  // The distance of the two numbers of the format between which magnitude / scale lies, in units of the scale. Above
  // the largest number: of the last two.
  float GapAt(float scaled) const;
};

inline constexpr uint64_t kSquareSide = 128;

// bf16, fp16, fp8-tensor, fp8-channel, fp8-block, mxfp8, mxfp4, nvfp4, nf4.
std::span<const ServedView> ServedViews();
const ServedView* FindServedView(std::string_view name);

}  // namespace skerry

#endif  // SKERRY_ABSORB_SERVED_VIEW_H_
