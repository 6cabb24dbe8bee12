// What a training run of known settings will change in each view of a checkpoint, step by step.
#ifndef SKERRY_ABSORB_PREDICTION_H_
#define SKERRY_ABSORB_PREDICTION_H_

#include <array>
#include <map>
#include <vector>

#include "skerry/absorb/census.h"
#include "skerry/absorb/drift.h"
#include "skerry/absorb/visibility.h"

namespace skerry {

// Where masters begin.
enum class Masters {
  kServed,   // they are the checkpoint's numbers, as when training starts from a BF16 checkpoint
  kSettled,  // they have moved for long and lie anywhere in their cells, as when it goes on from F32 masters
};

// The signal (see Training) where nobody says better. A batch as large as the gradient noise scale is where data and
// time are spent in balance (McCandlish et al.), and what a new objective begins with; masters that have settled are
// where the noise is what is left.
constexpr double UsualSignal(Masters masters) { return masters == Masters::kServed ? 1 : 0; }

// What codes are made of. A trainer's own BF16 or FP16 view is of its masters in either case.
enum class ViewsOf {
  kServed,   // masters that were rounded to BF16 first, as publishers do unless they are told otherwise
  kMasters,  // the masters themselves
};

// Settings of a training run as people know them.
struct Settings {
  double lr = 1e-6, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  Masters masters = Masters::kServed;
  ViewsOf views_of = ViewsOf::kServed;
  double signal = UsualSignal(Masters::kServed);
  uint64_t warmup = 0;
  double gradient_norm = 1;  // of all weights' gradient together, after clipping
};

// The moves of a model's weights over the same ranges: those of embeddings and output layers are smaller.
//
// The gradient of most of the vocabulary's rows goes with the probability of their tokens, which is about 1 /
// vocabulary, times what other weights have, gradient_norm / sqrt(weights); and comes near Adam's epsilon. Logarithms
// of tokens' probabilities are spread as the logits are, by some kLogitSpread.
struct Moves {
  std::vector<Move> usual, vocabulary;
};
inline constexpr double kLogitSpread = 2.5;

// kInvalid as CheckTraining and SimulateDrift say.
Result<Moves> MovesOf(const Settings& settings, const Census& census, std::span<const StepRange> ranges);

// Of one view, for one move.
struct ViewStep {
  StepRange steps;
  double changed = 0;                               // weights, expected
  double quantised_changed = 0;                     // of these, codes
  double bytes = 0;                                 // of a patch
  std::array<double, kTensorKinds> kind_changed{};  // weights
};

// All weights of one exponent of a view, each of which is shown with the same chance.
struct ExponentChance {
  uint64_t weights = 0;
  double boundary = 0;        // half the width of their cells, the mean over them of the logarithm
  std::vector<double> shows;  // for each move
};

struct ViewPrediction {
  std::vector<ViewStep> steps;              // one a move
  std::map<int, ExponentChance> exponents;  // of all weights that the view quantises, or of all where it has no codes
};

// Bytes are the entropy of an ideal code that knows each weight's cell: H(p) for every weight whether it changes, and
// the entropy of the change where it does (ChancesOf), and what an empty patch takes. Scales are taken as frozen.
// One prediction for each view of the census, in its order.
Result<std::vector<ViewPrediction>> Predict(const Census& census, const Moves& moves, const Settings& settings,
                                            int threads);

// What a patch without changes takes, in bytes.
inline constexpr double kEmptyPatchBytes = 235;

}  // namespace skerry

#endif  // SKERRY_ABSORB_PREDICTION_H_
