#include "skerry/absorb/drift.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <set>

#include "skerry/base/interrupt.h"

namespace skerry {
namespace {

// Standard normal numbers, which the standard library's distribution does not promise to be the same everywhere.
class NormalDraws {
 public:
  double operator()() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    // Box and Muller. The radius' draw is never 0.
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53));
    const double angle = 2 * std::numbers::pi * static_cast<double>(random_() >> 11) * 0x1p-53;
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::mt19937_64 random_{20261130};
  double spare_ = 0;
  bool has_spare_ = false;
};

// Gradients are in units of their noise, and so is Adam's epsilon.
struct Element {
  double signal = 0, epsilon = 0, momentum = 0, square = 0, drift = 0;
};

class Adam {
 public:
  Adam(const Training& training, size_t elements) : training_(training) {
    elements_.reserve(elements);
    for (size_t i = 0; i < elements; ++i) {
      Element& element = elements_.emplace_back();
      element.signal = training.signal * draws_();
      if (std::isfinite(training.size)) element.epsilon = 1 / (training.size * std::exp(training.spread * draws_()));
    }
  }

  void Step() {
    ++step_;
    decayed1_ *= training_.beta1;
    decayed2_ *= training_.beta2;
    const double rate =
        step_ < training_.warmup ? static_cast<double>(step_) / static_cast<double>(training_.warmup) : 1;
    for (Element& element : elements_) {
      const double gradient = element.signal + draws_();
      element.momentum = training_.beta1 * element.momentum + (1 - training_.beta1) * gradient;
      element.square = training_.beta2 * element.square + (1 - training_.beta2) * gradient * gradient;
      const double size = std::sqrt(element.square / (1 - decayed2_)) + element.epsilon;
      element.drift -= rate * element.momentum / (1 - decayed1_) / size;
    }
  }

  uint64_t step() const { return step_; }
  std::vector<float> Drifts() const {
    std::vector<float> drifts;
    drifts.reserve(elements_.size());
    for (const Element& element : elements_) drifts.push_back(static_cast<float>(element.drift));
    return drifts;
  }

 private:
  const Training training_;
  NormalDraws draws_;
  std::vector<Element> elements_;
  uint64_t step_ = 0;
  double decayed1_ = 1, decayed2_ = 1;
};

bool IsDecay(double beta) { return beta >= 0 && beta < 1; }

}  // namespace

Status CheckTraining(const Training& training) {
  if (!(training.lr > 0) || !std::isfinite(training.lr)) {
    return Fail(Code::kInvalid, "a learning rate of {}: it is above 0", training.lr);
  }
  if (!IsDecay(training.beta1) || !IsDecay(training.beta2)) {
    return Fail(Code::kInvalid, "betas of {} and {}: they are at least 0 and below 1", training.beta1, training.beta2);
  }
  if (!(training.signal >= 0) || !std::isfinite(training.signal)) {
    return Fail(Code::kInvalid, "a signal of {}: it is at least 0", training.signal);
  }
  if (!(training.size > 0) || !(training.spread >= 0)) {
    return Fail(Code::kInvalid, "gradients of {} epsilons, spread by {}", training.size, training.spread);
  }
  return {};
}

Result<std::vector<Move>> SimulateDrift(const Training& training, std::span<const StepRange> ranges, size_t elements) {
  SKERRY_TRY(CheckTraining(training));
  std::set<uint64_t> wanted;
  for (const StepRange& range : ranges) {
    if (range.from >= range.to) return Fail(Code::kInvalid, "steps {} to {} do not rise", range.from, range.to);
    if (range.to > kMostSteps) return Fail(Code::kInvalid, "step {}: at most {} are simulated", range.to, kMostSteps);
    wanted.insert({range.from, range.to});
  }
  std::vector<Move> moves;
  for (const StepRange& range : ranges) moves.push_back({.steps = range, .before = {}, .after = {}});
  Adam adam(training, elements);
  for (const uint64_t step : wanted) {
    while (adam.step() < step) {
      SKERRY_TRY(CheckInterrupt());
      adam.Step();
    }
    const std::vector<float> drifts = adam.Drifts();
    for (Move& move : moves) {
      if (move.steps.from == step) move.before = drifts;
      if (move.steps.to == step) move.after = drifts;
    }
  }
  return moves;
}

}  // namespace skerry
