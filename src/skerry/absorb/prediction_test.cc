#include "skerry/absorb/prediction.h"

#include <cmath>
#include <cstring>
#include <random>

#include "skerry/diff/narrow.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

constexpr size_t kWeights = 1 << 18;
constexpr double kLr = 1e-5;

// A trainer, as far as masters are concerned: Adam in F32 on gradients of its own draws, served in BF16.
class Trainer {
 public:
  Trainer(std::vector<float> masters, double signal) : masters_(std::move(masters)) {
    for (float& weight : signal_) weight = static_cast<float>(signal * normal_(random_));
    served_ = Served();
  }
  std::vector<uint16_t> Served() const {
    std::vector<uint16_t> served(kWeights);
    NarrowF32(reinterpret_cast<const std::byte*>(masters_.data()), kWeights, DType::kBF16,
              reinterpret_cast<std::byte*>(served.data()));
    return served;
  }
  size_t Step() {
    ++step_;
    for (size_t i = 0; i < kWeights; ++i) {
      const double gradient = signal_[i] + normal_(random_);
      momentum_[i] = 0.9 * momentum_[i] + 0.1 * gradient;
      square_[i] = 0.999 * square_[i] + 0.001 * gradient * gradient;
      masters_[i] -= static_cast<float>(kLr * momentum_[i] / (1 - std::pow(0.9, step_)) /
                                        std::sqrt(square_[i] / (1 - std::pow(0.999, step_))));
    }
    const std::vector<uint16_t> now = Served();
    size_t changed = 0;
    for (size_t i = 0; i < kWeights; ++i) changed += now[i] != served_[i] ? 1 : 0;
    served_ = now;
    return changed;
  }

 private:
  std::mt19937_64 random_{99};
  std::normal_distribution<double> normal_;
  std::vector<float> masters_;
  std::vector<float> signal_ = std::vector<float>(kWeights);
  std::vector<double> momentum_ = std::vector<double>(kWeights), square_ = std::vector<double>(kWeights);
  std::vector<uint16_t> served_;
  int step_ = 0;
};

std::vector<float> Weights() {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> weights(kWeights);
  for (float& weight : weights) weight = normal(random);
  return weights;
}

ModelSource ServedModel(const std::vector<uint16_t>& served) {
  return ModelSource(
      TestModel{.tensors = {BitsTensor<uint16_t>("w", DType::kBF16, {kWeights}, served)}, .side_files = {}});
}

std::vector<StepRange> Steps(uint64_t count) {
  std::vector<StepRange> steps;
  for (uint64_t step = 0; step < count; ++step) steps.push_back({step, step + 1});
  return steps;
}

ViewPrediction PredictBf16(const TensorSource& source, const Settings& settings, uint64_t steps, int threads = 1) {
  const ServedView* view = FindServedView("bf16");
  const Census census = Must(TakeCensus(source, {&view, 1}, 1, Progress::None()));
  const Moves moves = Must(MovesOf(settings, census, Steps(steps)));
  return Must(Predict(census, moves, settings, threads)).front();
}

void ExpectPredicts(Trainer& trainer, const ViewPrediction& prediction) {
  for (const ViewStep& step : prediction.steps) {
    const auto changed = static_cast<double>(trainer.Step());
    EXPECT_NEAR(step.changed, changed, 0.05 * changed + 4 * std::sqrt(changed)) << "step " << step.steps.to;
  }
}

TEST(PredictionTest, OfSettledMastersIsWhatATrainerDoes) {
  Trainer trainer(Weights(), 0);
  const Settings settings{.lr = kLr, .masters = Masters::kSettled, .signal = 0};
  ExpectPredicts(trainer, PredictBf16(ServedModel(trainer.Served()), settings, 12));
}

TEST(PredictionTest, OfServedMastersIsWhatATrainerDoes) {
  std::vector<float> masters(kWeights);
  const std::vector<uint16_t> served = Trainer(Weights(), 0).Served();
  for (size_t i = 0; i < kWeights; ++i) {
    const uint32_t bits = static_cast<uint32_t>(served[i]) << 16;
    std::memcpy(&masters[i], &bits, sizeof(bits));
  }
  Trainer trainer(masters, 1);
  ExpectPredicts(trainer, PredictBf16(ServedModel(served), {.lr = kLr, .masters = Masters::kServed, .signal = 1}, 12));
}

TEST(PredictionTest, SumsAreThoseOfItsParts) {
  Random random(1);
  const TestModel model{
      .tensors = {RandomTensor("model.embed_tokens.weight", DType::kBF16, {512, 64}, random),
                  RandomTensor("model.layers.0.mlp.up_proj.weight", DType::kBF16, {256, 128}, random)},
      .side_files = {}};
  const std::vector<const ServedView*> views = {FindServedView("bf16"), FindServedView("fp16"),
                                                FindServedView("fp8-block")};
  const Census census = Must(TakeCensus(ModelSource(model), views, 1, Progress::None()));
  const Moves moves = Must(MovesOf({}, census, Steps(3)));
  for (const ViewPrediction& prediction : Must(Predict(census, moves, {}, 2))) {
    for (const ViewStep& step : prediction.steps) {
      double kinds = 0;
      for (const double changed : step.kind_changed) kinds += changed;
      EXPECT_NEAR(kinds, step.changed, 1e-9 * step.changed);
      EXPECT_GT(step.bytes, kEmptyPatchBytes);
      EXPECT_LE(step.quantised_changed, step.changed);
    }
  }
  const auto predictions = Must(Predict(census, moves, {}, 1));
  EXPECT_EQ(predictions[1].steps[2].quantised_changed, 0);  // FP16's numbers are no codes
  EXPECT_GT(predictions[2].steps[2].quantised_changed, 0);
  double shown = 0;
  for (const auto& [power, exponent] : predictions[0].exponents)
    shown += exponent.shows[2] * static_cast<double>(exponent.weights);
  EXPECT_NEAR(shown, predictions[0].steps[2].changed, 1e-9 * shown);
}

TEST(PredictionTest, BytesAreTheEntropyOfTheirChances) {
  // All weights have one exponent: each changes with one chance.
  const std::vector<uint16_t> served(kWeights, 0x3C55);
  const ViewPrediction prediction =
      PredictBf16(ServedModel(served), {.lr = 1e-6, .masters = Masters::kSettled, .signal = 0}, 1);
  const double p = 1e-6 / 0x1p-14;
  EXPECT_NEAR(prediction.steps[0].changed, p * kWeights, 1e-3 * p * kWeights);
  const double bits = kWeights * (-p * std::log2(p) - (1 - p) * std::log2(1 - p) + p);
  EXPECT_NEAR(prediction.steps[0].bytes, kEmptyPatchBytes + bits / 8, 1e-3 * bits);
}

TEST(PredictionTest, MostOfALargeVocabularyStandsStill) {
  Random random(1);
  const std::vector<const ServedView*> views = {FindServedView("bf16")};
  const auto density = [&](uint64_t rows) {
    const TestModel model{.tensors = {RandomTensor("lm_head.weight", DType::kBF16, {rows, 4}, random)},
                          .side_files = {}};
    Census census = Must(TakeCensus(ModelSource(model), views, 1, Progress::None()));
    census.weights = 100'000'000;
    const Settings settings{.masters = Masters::kSettled, .signal = 0};
    const Moves moves = Must(MovesOf(settings, census, Steps(1)));
    return Must(Predict(census, moves, settings, 1))[0].steps[0].changed / static_cast<double>(4 * rows);
  };
  EXPECT_LT(density(100'000), 0.3 * density(100));
}

TEST(PredictionTest, IsTheSameOnAnyNumberOfThreads) {
  const Trainer trainer(Weights(), 0);
  const ViewPrediction one = PredictBf16(ServedModel(trainer.Served()), {}, 3),
                       two = PredictBf16(ServedModel(trainer.Served()), {}, 3, 4);
  for (size_t i = 0; i < one.steps.size(); ++i) EXPECT_EQ(one.steps[i].changed, two.steps[i].changed);
}

}  // namespace
}  // namespace skerry
