// Estimates of coded size, for choices of the encoder. Nothing that a decoder computes depends on them.
#ifndef SKERRY_PATCH_ENTROPY_H_
#define SKERRY_PATCH_ENTROPY_H_

#include <cmath>

namespace skerry {

// Bits that tell which `changed` of `members` elements changed, when all are equally likely: members times the binary
// entropy of changed / members.
inline double PositionBits(double changed, double members) {
  if (changed <= 0 || changed >= members) return 0;
  const double kept = members - changed;
  return members * std::log2(members) - changed * std::log2(changed) - kept * std::log2(kept);
}

}  // namespace skerry

#endif  // SKERRY_PATCH_ENTROPY_H_
