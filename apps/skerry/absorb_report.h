// What `skerry absorb` found, to be printed in three forms.
#ifndef SKERRY_APPS_SKERRY_ABSORB_REPORT_H_
#define SKERRY_APPS_SKERRY_ABSORB_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "skerry/absorb/measured.h"
#include "skerry/absorb/prediction.h"

namespace skerry {

// Versions of a run, or of a further view of it, beside the prediction for the same steps.
struct MeasuredRun {
  RunId run;
  size_t view = 0;  // index into AbsorbReport::views()
  std::vector<MeasuredVersion> versions;
  std::vector<size_t> moves;  // of each version, its index into ViewPrediction::steps
};

struct AbsorbReport {
  std::string checkpoint, optimizer;
  Settings settings;
  uint64_t first_step = 10, last_step = 30;  // over which means are taken
  double link_bits_per_second = 1e9;
  Census census;
  std::vector<size_t> steps;  // moves of one step each, rising: the first step and those of the means, and between
  std::vector<ViewPrediction> predictions;  // in the census' order
  std::vector<MeasuredRun> measured;

  const std::vector<ViewCensus>& views() const { return census.views; }
  const ViewStep& FirstStep(size_t view) const { return predictions[view].steps[steps.front()]; }
  double Density(double changed) const {
    return census.weights == 0 ? 0 : changed / static_cast<double>(census.weights);
  }
  double Seconds(double bytes) const { return bytes * 8 / link_bits_per_second; }
  // The mean of value(move) over first_step to last_step.
  template <typename Value>
  double Mean(Value value) const {
    double sum = 0, count = 0;
    for (const size_t move : steps) {
      if (predictions.front().steps[move].steps.to < first_step) continue;
      sum += value(move);
      ++count;
    }
    return count == 0 ? 0 : sum / count;
  }
  double MeanChanged(size_t view) const {
    return Mean([&](size_t move) { return predictions[view].steps[move].changed; });
  }
  double MeanBytes(size_t view) const {
    return Mean([&](size_t move) { return predictions[view].steps[move].bytes; });
  }
};

nlohmann::ordered_json AbsorbJson(const AbsorbReport& report);
void PrintAbsorb(const AbsorbReport& report);
// One file that needs no other and asks for none.
std::string AbsorbHtml(const AbsorbReport& report);

// "0.0123 %", with three digits that tell something.
std::string FinePercent(double fraction);
// "12.3 ms"
std::string HumanSeconds(double seconds);

}  // namespace skerry

#endif  // SKERRY_APPS_SKERRY_ABSORB_REPORT_H_
