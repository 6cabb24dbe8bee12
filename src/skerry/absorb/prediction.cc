#include "skerry/absorb/prediction.h"

#include <cmath>
#include <tuple>

#include "skerry/base/interrupt.h"
#include "skerry/base/parallel.h"

namespace skerry {
namespace {

// Bits for one weight that changes with chance p.
double EntropyBits(double p) {
  if (p <= 0 || p >= 1) return 0;
  return -p * std::log2(p) - (1 - p) * std::log2(1 - p);
}

Cell CellOf(const CellClass& cells, const ServedView& view, const Settings& settings) {
  const double width = cells.Width();
  Cell cell{.width = width, .below = cells.at_power ? width / 2 : width};
  if (settings.masters == Masters::kSettled || cells.in_masters) return cell;
  const bool is_number = !cells.quantised || view.codes == ServedView::Codes::kFp16;
  if (is_number) {
    cell.start = Cell::Start::kCentre;
    return cell;
  }
  const double bf16 = CellClass{.exponent = cells.exponent}.Width();
  if (settings.views_of == ViewsOf::kServed) {
    cell.start = Cell::Start::kRounded;
    cell.grid = bf16;
  } else if (view.on_grid > 0) {
    cell.start = Cell::Start::kBoundary;
    cell.grid = bf16 * view.on_grid;
  }
  return cell;
}

// By what tells cells apart, and whether they are the vocabulary's, each with its chances for every move.
using ChancesByCell = std::map<std::tuple<double, double, double, Cell::Start, bool>, std::vector<Chances>>;

bool IsVocabulary(size_t kind) { return kind == static_cast<size_t>(TensorKind::kEmbedding); }

ChancesByCell::key_type KeyOf(const Cell& cell, size_t kind) {
  return {cell.width, cell.below, cell.grid, cell.start, IsVocabulary(kind)};
}

ViewPrediction PredictView(const ViewCensus& census, std::span<const Move> moves, const ChancesByCell& chances,
                           const Settings& settings) {
  ViewPrediction prediction;
  prediction.steps.resize(moves.size());
  for (size_t m = 0; m < moves.size(); ++m) prediction.steps[m] = {.steps = moves[m].steps, .bytes = kEmptyPatchBytes};
  for (size_t kind = 0; kind < census.kinds.size(); ++kind) {
    for (const auto& [cells, count] : census.kinds[kind]) {
      const Cell cell = CellOf(cells, *census.view, settings);
      const std::vector<Chances>& of_moves = chances.at(KeyOf(cell, kind));
      const auto weights = static_cast<double>(count);
      const bool shown = cells.quantised || census.quantised == 0;
      ExponentChance* exponent = shown ? &prediction.exponents[cells.exponent] : nullptr;
      if (exponent != nullptr) {
        exponent->shows.resize(moves.size());
        exponent->weights += count;
        exponent->boundary += weights * std::log(cell.width / 2);  // a sum until the end
      }
      for (size_t m = 0; m < moves.size(); ++m) {
        const double changed = weights * of_moves[m].shows;
        ViewStep& step = prediction.steps[m];
        step.changed += changed;
        if (cells.quantised && census.quantised > 0) step.quantised_changed += changed;
        step.kind_changed[kind] += changed;
        step.bytes += (weights * EntropyBits(of_moves[m].shows) + changed * of_moves[m].value_bits) / 8;
        if (exponent != nullptr) exponent->shows[m] += changed;
      }
    }
  }
  for (auto& [power, exponent] : prediction.exponents) {
    const auto weights = static_cast<double>(exponent.weights);
    exponent.boundary = std::exp(exponent.boundary / weights);
    for (double& shows : exponent.shows) shows /= weights;
  }
  return prediction;
}

}  // namespace

Result<Moves> MovesOf(const Settings& settings, const Census& census, std::span<const StepRange> ranges) {
  Training training{.lr = settings.lr,
                    .beta1 = settings.beta1,
                    .beta2 = settings.beta2,
                    .signal = settings.signal,
                    .warmup = settings.warmup};
  Moves moves;
  SKERRY_ASSIGN(moves.usual, SimulateDrift(training, ranges));
  if (census.vocabulary == 0) {
    moves.vocabulary = moves.usual;
    return moves;
  }
  training.size = settings.gradient_norm / std::sqrt(static_cast<double>(census.weights)) /
                  static_cast<double>(census.vocabulary) / settings.epsilon;
  training.spread = kLogitSpread;
  SKERRY_ASSIGN(moves.vocabulary, SimulateDrift(training, ranges));
  return moves;
}

Result<std::vector<ViewPrediction>> Predict(const Census& census, const Moves& moves, const Settings& settings,
                                            int threads) {
  ChancesByCell chances;
  for (const ViewCensus& view : census.views) {
    for (size_t kind = 0; kind < view.kinds.size(); ++kind) {
      for (const auto& [cells, count] : view.kinds[kind]) {
        chances[KeyOf(CellOf(cells, *view.view, settings), kind)].resize(moves.usual.size());
      }
    }
  }
  SKERRY_TRY(ParallelFor(moves.usual.size(), threads, [&](size_t m) -> Status {
    MoveChances usual(moves.usual[m], settings.lr), of_vocabulary(moves.vocabulary[m], settings.lr);
    for (auto& [key, of_moves] : chances) {
      const auto& [width, below, grid, start, vocabulary] = key;
      const Cell cell{.width = width, .below = below, .grid = grid, .start = start};
      of_moves[m] = (vocabulary ? of_vocabulary : usual).Of(cell);
    }
    return CheckInterrupt();
  }));
  std::vector<ViewPrediction> predictions;
  for (const ViewCensus& view : census.views) {
    predictions.push_back(PredictView(view, moves.usual, chances, settings));
  }
  return predictions;
}

}  // namespace skerry
