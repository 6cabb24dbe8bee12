// Chooses the magnitude classes of a patch from a sample of its changes.
#ifndef SKERRY_PATCH_MAGNITUDE_SURVEY_H_
#define SKERRY_PATCH_MAGNITUDE_SURVEY_H_

#include <array>
#include <span>
#include <vector>

#include "skerry/patch/magnitude_model.h"
#include "skerry/patch/value_step.h"

namespace skerry {

// Counts of one dtype by exponent of the old value.
class MagnitudeSurvey {
 public:
  explicit MagnitudeSurvey(const MagnitudeView& view);

  const MagnitudeView& view() const { return view_; }

  // Notes the old bytes of a run of units, a part of them where there are many.
  void AddMembers(ByteSpan before);
  // Notes a change of an element with these old bits.
  void AddChange(uint64_t old_bits, const StepToken& token);

  // What the sample's changes would take if all elements were of one class.
  double BitsOfOneClass() const;

  // The classes that make the whole patch smallest, where the sample is one part in `stride` of it: classes are runs of
  // exponents, found by dynamic programming over the entropy of positions and steps plus what a class costs.
  MagnitudeModel Choose(uint64_t stride) const;

 private:
  struct Bucket {
    uint64_t lowest = 0;  // magnitude
    double members = 0, changed = 0;
    std::array<double, kSymbols> symbols{};

    void Add(const Bucket& other);
  };

  // Buckets with members, neighbours merged where there are very many.
  std::vector<Bucket> Merged() const;
  static double Bits(const Bucket& bucket);
  static SymbolTable TableOf(const Bucket& bucket);

  MagnitudeView view_;
  std::vector<Bucket> buckets_;  // by exponent
};

}  // namespace skerry

#endif  // SKERRY_PATCH_MAGNITUDE_SURVEY_H_
