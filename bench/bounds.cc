#include "bounds.h"

#include <cmath>

#include "model.h"

namespace skerry {
namespace {

using Histogram = std::unordered_map<uint64_t, uint64_t>;

uint64_t Total(const Histogram& counts) {
  uint64_t sum = 0;
  for (const auto& [step, count] : counts) sum += count;
  return sum;
}

// Bits of all draws together.
double Entropy(const Histogram& counts) {
  const auto sum = static_cast<double>(Total(counts));
  double bits = 0;
  for (const auto& [step, count] : counts)
    bits += static_cast<double>(count) * std::log2(sum / static_cast<double>(count));
  return bits;
}
double PositionBits(uint64_t elements, uint64_t changed) {
  if (changed == 0 || changed == elements) return 0;
  return Entropy({{0, changed}, {1, elements - changed}});
}

// As an integer whose neighbours are the neighbouring values.
uint64_t OrderedValue(uint64_t value, int bits, bool sign_magnitude) {
  const uint64_t sign = uint64_t{1} << (bits - 1);
  if (!sign_magnitude || (value & sign) == 0) return value;
  return ~(value & (sign - 1));  // -0 is -1, and so on
}

}  // namespace

BoundCounter::BoundCounter(DType dtype)
    : unit_(DTypeUnit(dtype)), bits_(8 * unit_), sign_magnitude_(DTypeIsSignMagnitude(dtype)) {
  const auto fields = [&](int exponent, int mantissa) { exponent_bits_ = exponent, mantissa_bits_ = mantissa; };
  switch (dtype) {
    case DType::kBF16: fields(8, 7); break;
    case DType::kF16: fields(5, 10); break;
    case DType::kF32: fields(8, 23); break;
    case DType::kF64: fields(11, 52); break;
    case DType::kF8E4M3:
    case DType::kF8E4M3FNUZ: fields(4, 3); break;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: fields(5, 2); break;
    case DType::kF4:
      fields(2, 1);
      bits_ = 4;
      sign_magnitude_ = true;
      break;
    default: break;
  }
  classes_.resize(size_t{1} << exponent_bits_);
}

template <typename T>
void BoundCounter::Count(T before, T after) {
  Class& mine = classes_[before >> mantissa_bits_ & (classes_.size() - 1)];
  ++mine.elements;
  if (before == after) return;
  ++mine.steps[OrderedValue(after, bits_, sign_magnitude_) - OrderedValue(before, bits_, sign_magnitude_)];
}

void BoundCounter::Add(ByteSpan before, ByteSpan after) {
  WithUnit(unit_, [&]<typename T>(T) {
    for (size_t i = 0; i < before.size(); i += sizeof(T)) {
      const T old = LoadLe<T>(before.data() + i), now = LoadLe<T>(after.data() + i);
      if (bits_ == 4) {
        Count<T>(old & 15, now & 15);
        Count<T>(old >> 4, now >> 4);
      } else {
        Count<T>(old, now);
      }
    }
  });
}

Bound BoundCounter::Compute() const {
  Bound bound;
  Histogram all;
  for (const Class& one : classes_) {
    const uint64_t changed = Total(one.steps);
    bound.elements += one.elements;
    bound.changed += changed;
    bound.given_exponent += (PositionBits(one.elements, changed) + Entropy(one.steps)) / 8;
    for (const auto& [step, count] : one.steps) all[step] += count;
  }
  bound.order0 = (PositionBits(bound.elements, bound.changed) + Entropy(all)) / 8;
  return bound;
}

}  // namespace skerry
