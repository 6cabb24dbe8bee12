// Units sorted into classes by the magnitude of their old value.
//
// An optimizer step is about as large whatever the weight, and shows only where it crosses half a unit in the last
// place, which doubles with each exponent: how likely an element changes is written in its old magnitude. Both ends
// hold the old value, so both know an element's class.
#ifndef SKERRY_PATCH_MAGNITUDE_CLASSES_H_
#define SKERRY_PATCH_MAGNITUDE_CLASSES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "skerry/tensors/dtype.h"

namespace skerry {

inline constexpr int kMaxClasses = 16;

// How the magnitude of an element of a dtype is read: bits & mask, as an unsigned integer.
struct MagnitudeView {
  int bits = 0;          // of an element; 4 for codes of which a byte holds two
  uint64_t mask = 0;     // all but the sign
  int exponent_bit = 0;  // magnitudes whose bits from here up are equal have one exponent

  bool has_sign() const { return mask >> (bits - 1) == 0; }
};

// Nothing for dtypes without an exponent: integers, bool, complex pairs, codes of 6 bits. U8's view is that of bytes
// that hold two codes of 4 bits, whose meaning nobody told us: each code is a magnitude of its own.
std::optional<MagnitudeView> MagnitudeViewOf(DType dtype);

// Class c holds the magnitudes from lowest(c) up to below lowest(c + 1); lowest(0) is 0.
class MagnitudeClasses {
 public:
  // `lowest`: rising, above 0 and within the view's mask, at most kMaxClasses - 1 of them.
  MagnitudeClasses(const MagnitudeView& view, const std::vector<uint64_t>& lowest);
  static bool AreValid(const MagnitudeView& view, const std::vector<uint64_t>& lowest);

  const MagnitudeView& view() const { return view_; }
  int count() const { return count_; }
  uint64_t lowest(int c) const { return lowest_[static_cast<size_t>(c)]; }
  int ClassOf(uint64_t element_bits) const {
    const uint64_t magnitude = element_bits & view_.mask;
    int c = 0;
    while (c + 1 < count_ && magnitude >= lowest_[static_cast<size_t>(c + 1)]) ++c;
    return c;
  }

 private:
  MagnitudeView view_;
  int count_ = 1;
  std::array<uint64_t, kMaxClasses> lowest_{};
};

}  // namespace skerry

#endif  // SKERRY_PATCH_MAGNITUDE_CLASSES_H_
