// How few bits a delta can cost under two simple models: what Skerry's bytes are held against.
//
// order 0        positions as n independent draws with the overall chance of a change, n H(k / n), and the entropy of
//                the step from old to new in the ordered view of the dtype (neighbouring values differ by 1)
// given exponent the same, apart for each value of the old element's exponent field
//
// The models' own parameters cost nothing here. A packed F4 byte counts as two elements; integers, E8M0 and packed F6
// have no exponent, so that their two bounds are equal.
#ifndef SKERRY_BENCH_BOUNDS_H_
#define SKERRY_BENCH_BOUNDS_H_

#include <unordered_map>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/tensors/dtype.h"

namespace skerry {

struct Bound {
  uint64_t elements = 0, changed = 0;
  double order0 = 0, given_exponent = 0;  // bytes
};

// Over all tensors of one dtype.
class BoundCounter {
 public:
  explicit BoundCounter(DType dtype);

  void Add(ByteSpan before, ByteSpan after);
  Bound Compute() const;

 private:
  struct Class {
    uint64_t elements = 0;
    std::unordered_map<uint64_t, uint64_t> steps;  // how often each step was seen
  };

  template <typename T>
  void Count(T before, T after);

  int unit_, bits_;
  bool sign_magnitude_;
  int exponent_bits_ = 0, mantissa_bits_ = 0;
  std::vector<Class> classes_;  // by exponent
};

}  // namespace skerry

#endif  // SKERRY_BENCH_BOUNDS_H_
