#include "skerry/patch/magnitude_classes.h"

namespace skerry {

std::optional<MagnitudeView> MagnitudeViewOf(DType dtype) {
  const auto view = [](int bits, int exponent_bit) {
    return MagnitudeView{.bits = bits, .mask = (uint64_t{1} << (bits - 1)) - 1, .exponent_bit = exponent_bit};
  };
  switch (dtype) {
    case DType::kF16: return view(16, 10);
    case DType::kBF16: return view(16, 7);
    case DType::kF32: return view(32, 23);
    case DType::kF64: return view(64, 52);
    case DType::kF8E4M3:
    case DType::kF8E4M3FNUZ: return view(8, 3);
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return view(8, 2);
    case DType::kF8E8M0: return MagnitudeView{.bits = 8, .mask = 0xFF, .exponent_bit = 0};
    // So few magnitudes that each is its own.
    case DType::kF4: return view(4, 0);
    case DType::kU8: return MagnitudeView{.bits = 4, .mask = 0xF, .exponent_bit = 0};
    default: return std::nullopt;
  }
}

bool MagnitudeClasses::AreValid(const MagnitudeView& view, const std::vector<uint64_t>& lowest) {
  if (lowest.size() >= kMaxClasses) return false;
  uint64_t previous = 0;
  for (const uint64_t bound : lowest) {
    if (bound <= previous || bound > view.mask) return false;
    previous = bound;
  }
  return true;
}

MagnitudeClasses::MagnitudeClasses(const MagnitudeView& view, const std::vector<uint64_t>& lowest)
    : view_(view), count_(static_cast<int>(lowest.size()) + 1) {
  for (size_t c = 0; c < lowest.size(); ++c) lowest_[c + 1] = lowest[c];
}

}  // namespace skerry
