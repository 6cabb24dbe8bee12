// A look at a sample of the changes, before encoding: the tables that the sparse methods share in a patch.
#ifndef SKERRY_PATCH_SURVEY_H_
#define SKERRY_PATCH_SURVEY_H_

#include <map>
#include <optional>
#include <span>

#include "skerry/patch/magnitude_survey.h"
#include "skerry/patch/patch_file.h"

namespace skerry {

class Survey {
 public:
  explicit Survey(bool magnitudes) : magnitudes_(magnitudes) {}

  // Announces a dtype of which one cell in `stride` will be noted.
  void Expect(DType dtype, uint64_t stride);
  // Notes a cell of an expected dtype, whose units at `positions` changed.
  void AddCell(DType dtype, ByteSpan before, ByteSpan after, std::span<const uint32_t> positions);

  // The tables for all expected dtypes; magnitudes of U8 only where its bytes change as two codes of 4 bits do.
  ValueTables Values() const;
  MagnitudeModels Magnitudes() const;

 private:
  struct Counts {
    uint64_t stride = 1;
    uint64_t units = 0;
    std::array<uint64_t, kSymbols> symbols{};
    std::optional<MagnitudeSurvey> magnitudes;

    double FlatBits() const;
    bool CodesPay() const;
  };

  bool magnitudes_;
  std::map<DType, Counts> counts_;
};

}  // namespace skerry

#endif  // SKERRY_PATCH_SURVEY_H_
