#include "skerry/absorb/census.h"

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

float ValueOf(const TestTensor& tensor, size_t i) {
  const uint32_t bits = static_cast<uint32_t>(LoadLe<uint16_t>(tensor.bytes.data() + 2 * i)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::vector<const ServedView*> AllViews() {
  std::vector<const ServedView*> views;
  for (const ServedView& view : ServedViews()) views.push_back(&view);
  return views;
}

Census CensusOf(const TestModel& model, int threads = 1) {
  return Must(TakeCensus(ModelSource(model), AllViews(), threads, Progress::None()));
}

const ViewCensus& ViewOf(const Census& census, std::string_view name) {
  for (const ViewCensus& view : census.views) {
    if (view.view->name == name) return view;
  }
  throw std::runtime_error("no such view");
}

uint64_t CellsOf(const ViewCensus& view) {
  uint64_t sum = 0;
  for (const CellCounts& kind : view.kinds) {
    for (const auto& [cells, count] : kind) sum += count;
  }
  return sum;
}

// The mean of 1 / width: what the chances go with.
double MeanInverse(const CellCounts& counts) {
  double sum = 0, all = 0;
  for (const auto& [cells, count] : counts) {
    sum += static_cast<double>(count) / cells.Width();
    all += static_cast<double>(count);
  }
  return sum / all;
}

class CensusTest : public ::testing::Test {
 protected:
  Random random_{5};
  TestModel model_{.tensors = {RandomTensor("model.embed_tokens.weight", DType::kBF16, {100, 64}, random_),
                               RandomTensor("model.layers.0.mlp.up_proj.weight", DType::kBF16, {300, 192}, random_),
                               RandomTensor("model.norm.weight", DType::kBF16, {64}, random_)},
                   .side_files = {}};
};

TEST_F(CensusTest, CountsEveryWeightOnceInEachView) {
  StoreLe<uint16_t>(model_.tensors[1].bytes.data(), 0x8000);      // -0
  StoreLe<uint16_t>(model_.tensors[1].bytes.data() + 2, 0x7F80);  // an infinity
  StoreLe<uint16_t>(model_.tensors[1].bytes.data() + 4, 0x0001);  // the smallest number
  const Census census = CensusOf(model_);
  EXPECT_EQ(census.weights, 100u * 64 + 300 * 192 + 64);
  EXPECT_EQ(census.vocabulary, 100u);
  EXPECT_GE(census.zeros, 1u);
  for (const ViewCensus& view : census.views)
    EXPECT_EQ(CellsOf(view) + census.zeros + 1, census.weights) << view.view->name;
  EXPECT_EQ(census.kinds[static_cast<size_t>(TensorKind::kEmbedding)], 6400u);
  EXPECT_EQ(census.kinds[static_cast<size_t>(TensorKind::kMlp)], 57600u);
  EXPECT_EQ(census.kinds[static_cast<size_t>(TensorKind::kNorm)], 64u);
}

TEST_F(CensusTest, KnowsTheBytesOfEachView) {
  const Census census = CensusOf(model_);
  const uint64_t rest = 2 * (6400 + 64);
  EXPECT_EQ(ViewOf(census, "bf16").tensor_bytes, rest + 57600 * 2);
  EXPECT_EQ(ViewOf(census, "fp8-block").tensor_bytes, rest + 57600 + 4 * 3 * 2);
  EXPECT_EQ(ViewOf(census, "mxfp4").tensor_bytes, rest + 57600 / 2 + 57600 / 32);
  EXPECT_EQ(ViewOf(census, "nf4").tensor_bytes, rest + 57600 / 2 + 57600 / 64 * 4);
  EXPECT_EQ(ViewOf(census, "fp8-block").quantised, 57600u);
  EXPECT_EQ(ViewOf(census, "bf16").quantised, 0u);
}

TEST_F(CensusTest, Bf16CellsAreTheUnitsInTheLastPlace) {
  const TestTensor& tensor = model_.tensors[1];
  uint64_t powers = 0;
  double inverse = 0, count = 0;
  for (size_t i = 0; i < tensor.units(); ++i) {
    const float value = std::abs(ValueOf(tensor, i));
    if (value == 0) continue;
    inverse += 1 / std::ldexp(1.0, std::ilogb(value) - 7);
    count += 1;
    powers += std::ldexp(1.0F, std::ilogb(value)) == value ? 1 : 0;
  }
  const Census census = CensusOf(model_);
  const CellCounts& cells = ViewOf(census, "bf16").kinds[static_cast<size_t>(TensorKind::kMlp)];
  EXPECT_NEAR(MeanInverse(cells), inverse / count, 1e-9 * inverse / count);
  uint64_t found = 0;
  for (const auto& [cell, weights] : cells) found += cell.at_power ? weights : 0;
  EXPECT_EQ(found, powers);
}

TEST_F(CensusTest, CodesHaveTheGapsOfTheirBlocks) {
  const TestTensor& tensor = model_.tensors[1];
  const ServedView& block = *FindServedView("fp8-block");
  const ServedView& group = *FindServedView("mxfp4");
  double inverse_block = 0, inverse_group = 0, count = 0;
  const auto magnitude = [&](size_t row, size_t column) { return std::abs(ValueOf(tensor, row * 192 + column)); };
  std::map<std::pair<size_t, size_t>, float> in_blocks, in_groups;  // the largest magnitudes
  for (size_t row = 0; row < 300; ++row) {
    for (size_t column = 0; column < 192; ++column) {
      float& in_block = in_blocks[{row / 128, column / 128}];
      float& in_group = in_groups[{row, column / 32}];
      in_block = std::max(in_block, magnitude(row, column));
      in_group = std::max(in_group, magnitude(row, column));
    }
  }
  for (size_t row = 0; row < 300; ++row) {
    for (size_t column = 0; column < 192; ++column) {
      const float value = magnitude(row, column);
      if (value == 0) continue;
      const float in_block = in_blocks[{row / 128, column / 128}], in_group = in_groups[{row, column / 32}];
      inverse_block += 1 / (block.GapAt(value / block.ScaleFor(in_block)) * block.ScaleFor(in_block));
      inverse_group += 1 / (group.GapAt(value / group.ScaleFor(in_group)) * group.ScaleFor(in_group));
      count += 1;
    }
  }
  const Census census = CensusOf(model_);
  constexpr auto kMlp = static_cast<size_t>(TensorKind::kMlp);
  // Widths are told apart by eighths of an octave, and there are six blocks.
  EXPECT_NEAR(MeanInverse(ViewOf(census, "fp8-block").kinds[kMlp]), inverse_block / count,
              0.03 * inverse_block / count);
  EXPECT_NEAR(MeanInverse(ViewOf(census, "mxfp4").kinds[kMlp]), inverse_group / count, 0.01 * inverse_group / count);
}

TEST_F(CensusTest, IsTheSameOnAnyNumberOfThreads) {
  model_.tensors.push_back(RandomTensor("model.layers.1.mlp.up_proj.weight", DType::kBF16, {4000, 600}, random_));
  const Census one = CensusOf(model_), four = CensusOf(model_, 4);
  for (size_t v = 0; v < one.views.size(); ++v) EXPECT_EQ(one.views[v].kinds, four.views[v].kinds);
}

TEST_F(CensusTest, PassesOverWhatIsNoWeight) {
  model_.tensors.push_back(RandomTensor("codes", DType::kF8E4M3, {8, 8}, random_));
  model_.tensors.push_back(RandomTensor("packed", DType::kF4, {8, 8}, random_));
  const Census census = CensusOf(model_);
  EXPECT_EQ(census.passed_over, 128u);
  EXPECT_EQ(census.weights, 64064u);
}

TEST_F(CensusTest, TakesF16ByItsValueAndF32AsMasters) {
  const TestModel model{.tensors = {BitsTensor<uint16_t>("h", DType::kF16, {3}, {0x3C00, 0x0001, 0x8000}),
                                    BitsTensor<uint32_t>("f", DType::kF32, {2}, {0x3F800001, 0x80000000})},
                        .side_files = {}};
  const Census census = CensusOf(model);
  EXPECT_EQ(census.zeros, 2u);
  std::map<int, bool> exponents;
  for (const auto& [cells, count] : ViewOf(census, "bf16").kinds[static_cast<size_t>(TensorKind::kOther)]) {
    exponents[cells.exponent] |= cells.in_masters;
  }
  EXPECT_EQ(exponents, (std::map<int, bool>{{-24, false}, {0, true}}));
}

}  // namespace
}  // namespace skerry
