#include "skerry/absorb/census.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "skerry/base/parallel.h"

namespace skerry {
namespace {

using Blocks = ServedView::Blocks;

constexpr uint64_t kPieceWeights = 1 << 20;  // about so many a task
constexpr size_t kMagnitudes = 1 << 15;      // of BF16
constexpr uint32_t kExponents = 256, kInfinite = 255;
// Cells may be from 2^-8 to 2^56 times as wide as the weight's own exponent says; what is beyond is put at the ends.
constexpr int kSpan = 64 * kWidthSteps, kLowest = -8 * kWidthSteps;

int ExponentOf(uint32_t biased) { return static_cast<int>(biased) - 127; }

// Widths whose logarithms are told apart by kWidthSteps an octave: by a float's exponent and leading digits, rounded.
static_assert(kWidthSteps == 8);
int WidthStep(float width) { return static_cast<int>((std::bit_cast<uint32_t>(width) + (1U << 19)) >> 20); }

bool HasScaledBlocks(const ServedView& view) { return view.blocks != Blocks::kNone && view.blocks != Blocks::kTensor; }

// How the weights of one tensor are divided into tasks: whole rows of whole blocks, or any run of them.
struct Plan {
  const LayoutTensor* tensor = nullptr;
  size_t ordinal = 0;
  TensorKind kind = TensorKind::kOther;
  uint64_t weights = 0, columns = 1, rows_each = 1;
  std::vector<size_t> blocked;  // views whose codes have scales in blocks of this tensor
};

struct Piece {
  size_t plan = 0;
  uint64_t first = 0, count = 0;  // weights
};

struct PieceCensus {
  std::vector<uint32_t> magnitudes;                                // by BF16 bits without the sign
  std::vector<std::vector<std::pair<CellClass, uint32_t>>> views;  // of Plan::blocked
};

bool IsWeights(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32; }

float FromHalf(uint16_t bits) {
  const uint32_t exponent = bits >> 10 & 31U, mantissa = bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(0x7F80'0000U | mantissa << 13);
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-24F;
  return std::bit_cast<float>((exponent + 112) << 23 | mantissa << 13);
}

// Magnitudes, as F32.
void Widen(ByteSpan bytes, DType dtype, std::vector<float>& out) {
  const auto each = [&]<typename T>(T, auto value) {
    out.resize(bytes.size() / sizeof(T));
    for (size_t i = 0; i < out.size(); ++i) {
      T bits;
      std::memcpy(&bits, bytes.data() + i * sizeof(T), sizeof(T));
      out[i] = std::abs(value(bits));
    }
  };
  if (dtype == DType::kF32) return each(uint32_t{}, [](uint32_t bits) { return std::bit_cast<float>(bits); });
  if (dtype == DType::kF16) return each(uint16_t{}, FromHalf);
  each(uint16_t{}, [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); });
}

// GapAt as a table over BF16 magnitudes, which tell the gap but for those that round over one of the format's numbers.
class Gaps {
 public:
  explicit Gaps(const ServedView& view) : gaps_(kMagnitudes) {
    for (size_t i = 0; i < kMagnitudes; ++i)
      gaps_[i] = view.GapAt(std::bit_cast<float>(static_cast<uint32_t>(i) << 16));
  }
  float At(float scaled) const { return gaps_[std::bit_cast<uint32_t>(scaled) >> 16 & (kMagnitudes - 1)]; }

 private:
  std::vector<float> gaps_;
};

// Counts by exponent and width, for one view at a time.
class WidthCounts {
 public:
  void Add(float magnitude, float scale, float inverse, const Gaps& gaps) {
    const uint32_t exponent = std::bit_cast<uint32_t>(magnitude) >> 23;
    if (magnitude == 0 || exponent == kInfinite) return;
    const int step = WidthStep(gaps.At(magnitude * inverse) * scale);
    const int relative = step - static_cast<int>(exponent) * kWidthSteps - kLowest;
    ++counts_[exponent * kSpan + static_cast<uint32_t>(std::clamp(relative, 0, kSpan - 1))];
  }

  // And begins anew.
  std::vector<std::pair<CellClass, uint32_t>> Take(bool in_masters) {
    std::vector<std::pair<CellClass, uint32_t>> taken;
    for (uint32_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const uint32_t exponent = i / kSpan;
      const int step = static_cast<int>(i % kSpan) + kLowest + static_cast<int>(exponent) * kWidthSteps;
      taken.emplace_back(CellClass{.exponent = ExponentOf(exponent),
                                   .width_step = std::max(step, 1),
                                   .quantised = true,
                                   .in_masters = in_masters},
                         counts_[i]);
      counts_[i] = 0;
    }
    return taken;
  }

 private:
  std::vector<uint32_t> counts_ = std::vector<uint32_t>(kExponents * kSpan);
};

// Calls add(index, scale) for each weight of whole rows.
template <typename Add>
void ForEachBlock(const ServedView& view, const std::vector<float>& weights, uint64_t columns, Add add) {
  const uint64_t rows = weights.size() / columns;
  const auto block = [&](uint64_t row_begin, uint64_t row_end, uint64_t begin, uint64_t end) {
    float largest = 0;
    for (uint64_t row = row_begin; row < row_end; ++row) {
      for (uint64_t i = row * columns + begin; i < row * columns + end; ++i) {
        if (weights[i] > largest && std::isfinite(weights[i])) largest = weights[i];
      }
    }
    const float scale = view.ScaleFor(largest);
    const float inverse = 1 / scale;
    for (uint64_t row = row_begin; row < row_end; ++row) {
      for (uint64_t i = row * columns + begin; i < row * columns + end; ++i) add(weights[i], scale, inverse);
    }
  };
  if (view.blocks == Blocks::kFlat) {
    for (uint64_t at = 0; at < weights.size(); at += view.group) {
      float largest = 0;
      const uint64_t end = std::min<uint64_t>(at + view.group, weights.size());
      for (uint64_t i = at; i < end; ++i) {
        if (weights[i] > largest && std::isfinite(weights[i])) largest = weights[i];
      }
      const float scale = view.ScaleFor(largest);
      for (uint64_t i = at; i < end; ++i) add(weights[i], scale, 1 / scale);
    }
    return;
  }
  const uint64_t high = view.blocks == Blocks::kSquare ? kSquareSide : 1;
  const uint64_t wide = view.blocks == Blocks::kSquare  ? kSquareSide
                        : view.blocks == Blocks::kGroup ? view.group
                                                        : columns;
  for (uint64_t row = 0; row < rows; row += high) {
    for (uint64_t column = 0; column < columns; column += wide) {
      block(row, std::min(row + high, rows), column, std::min(column + wide, columns));
    }
  }
}

class Taking {
 public:
  Taking(const TensorSource& source, std::span<const ServedView* const> views) : source_(source) {
    for (const ServedView* view : views) {
      census_.views.emplace_back().view = view;
      gaps_.emplace_back(*view);
    }
    for (size_t i = 0; i < source.layout().tensors().size(); ++i) PlanTensor(i);
  }

  const std::vector<Piece>& pieces() const { return pieces_; }

  Result<PieceCensus> Produce(size_t index) const {
    thread_local Bytes scratch;
    thread_local std::vector<float> weights;
    thread_local WidthCounts counts;
    const Piece& piece = pieces_[index];
    const Plan& plan = plans_[piece.plan];
    const DType dtype = plan.tensor->dtype;
    const auto size = static_cast<uint64_t>(DTypeUnit(dtype));
    SKERRY_ASSIGN(const ByteSpan bytes, source_.Read(plan.ordinal, piece.first * size, piece.count * size, scratch));
    Widen(bytes, dtype, weights);
    PieceCensus made;
    made.magnitudes.resize(kMagnitudes);
    for (const float weight : weights) ++made.magnitudes[std::bit_cast<uint32_t>(weight) >> 16];
    for (const size_t v : plan.blocked) {
      ForEachBlock(*census_.views[v].view, weights, plan.columns,
                   [&](float weight, float scale, float inverse) { counts.Add(weight, scale, inverse, gaps_[v]); });
      made.views.push_back(counts.Take(dtype == DType::kF32));
    }
    return made;
  }

  Status Consume(size_t index, const PieceCensus& made) {
    const Piece& piece = pieces_[index];
    const Plan& plan = plans_[piece.plan];
    magnitudes_.resize(kMagnitudes);
    for (size_t i = 0; i < kMagnitudes; ++i) magnitudes_[i] += made.magnitudes[i];
    for (size_t b = 0; b < plan.blocked.size(); ++b) {
      CellCounts& kind = census_.views[plan.blocked[b]].kinds[static_cast<size_t>(plan.kind)];
      for (const auto& [cells, count] : made.views[b]) kind[cells] += count;
    }
    if (piece.first + piece.count == plan.weights) {
      Finish(plan);
      magnitudes_.clear();
    }
    return {};
  }

  Census Take() { return std::move(census_); }

 private:
  void PlanTensor(size_t ordinal) {
    const LayoutTensor& tensor = source_.layout().tensors()[ordinal];
    if (!IsWeights(tensor.dtype)) {
      census_.passed_over += tensor.bytes * 8 / static_cast<uint64_t>(DTypeBits(tensor.dtype));
      for (ViewCensus& view : census_.views) view.tensor_bytes += tensor.bytes;
      return;
    }
    Plan plan;
    plan.tensor = &tensor;
    plan.ordinal = ordinal;
    plan.kind = KindOf(tensor.name);
    plan.weights = tensor.units();
    if (plan.weights == 0) return;
    const bool quantised = IsQuantised(tensor.name, tensor.shape);
    if (quantised) plan.columns = tensor.shape[1];
    for (size_t v = 0; v < census_.views.size(); ++v) {
      ViewCensus& view = census_.views[v];
      const bool codes = view.view->blocks != Blocks::kNone && quantised && view.view->Fits(tensor.shape);
      if (codes && HasScaledBlocks(*view.view)) plan.blocked.push_back(v);
      const uint64_t scales = codes ? view.view->ScalesOf(tensor.shape) : 0;
      view.quantised += codes ? plan.weights : 0;
      view.scales += scales;
      view.tensor_bytes +=
          (plan.weights * static_cast<uint64_t>(codes ? view.view->code_bits() : 16) + scales * view.view->scale_bits) /
          8;
    }
    census_.weights += plan.weights;
    census_.kinds[static_cast<size_t>(plan.kind)] += plan.weights;
    if (plan.kind == TensorKind::kEmbedding && !tensor.shape.empty()) {
      census_.vocabulary = std::max(census_.vocabulary, tensor.shape.front());
    }
    const uint64_t band = plan.columns * kSquareSide;  // of whole blocks of every view
    const uint64_t step = quantised ? std::max<uint64_t>(1, kPieceWeights / band) * band : kPieceWeights;
    for (uint64_t at = 0; at < plan.weights; at += step) {
      pieces_.push_back({plans_.size(), at, std::min(step, plan.weights - at)});
    }
    plans_.push_back(std::move(plan));
  }

  // What the magnitudes of the whole tensor tell.
  void Finish(const Plan& plan) {
    census_.zeros += magnitudes_[0];
    float largest = 0;
    for (size_t i = 0; i < kInfinite << 7; ++i) {
      if (magnitudes_[i] > 0) largest = std::bit_cast<float>(static_cast<uint32_t>(i) << 16);
    }
    for (size_t v = 0; v < census_.views.size(); ++v) {
      if (std::find(plan.blocked.begin(), plan.blocked.end(), v) != plan.blocked.end()) continue;
      const ServedView& view = *census_.views[v].view;
      const bool codes = view.codes == ServedView::Codes::kFp16 ||
                         (view.blocks == Blocks::kTensor && IsQuantised(plan.tensor->name, plan.tensor->shape));
      const float scale = view.blocks == Blocks::kTensor ? view.ScaleFor(largest) : 1;
      CellCounts& kind = census_.views[v].kinds[static_cast<size_t>(plan.kind)];
      for (uint32_t i = 1; i < kInfinite << 7; ++i) {
        if (magnitudes_[i] == 0) continue;
        const float magnitude = std::bit_cast<float>(i << 16);
        const bool narrower = view.codes != ServedView::Codes::kFp16 || magnitude > 0x1p-14F;
        kind[{.exponent = ExponentOf(i >> 7),
              .width_step = codes ? std::max(1, WidthStep(gaps_[v].At(magnitude / scale) * scale)) : 0,
              .quantised = codes,
              .at_power = view.blocks == Blocks::kNone && (i & 127) == 0 && narrower,
              .in_masters = plan.tensor->dtype == DType::kF32}] += magnitudes_[i];
      }
    }
  }

  const TensorSource& source_;
  std::vector<Gaps> gaps_;  // of each view
  std::vector<Plan> plans_;
  std::vector<Piece> pieces_;
  Census census_;
  std::vector<uint64_t> magnitudes_;  // of the tensor whose pieces are coming
};

}  // namespace

double CellClass::Width() const {
  if (!quantised) return std::ldexp(1.0, std::max(exponent, -126) - 7);
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(width_step) << 20));
}

Result<Census> TakeCensus(const TensorSource& source, std::span<const ServedView* const> views, int threads,
                          Progress& progress) {
  Taking taking(source, views);
  progress.Begin("read", source.layout().total_bytes());
  SKERRY_TRY(ParallelOrdered<PieceCensus>(
      taking.pieces().size(), threads, [&](size_t i) { return taking.Produce(i); },
      [&](size_t i, PieceCensus&& made) -> Status {
        progress.Advance(taking.pieces()[i].count * 2);
        return taking.Consume(i, made);
      }));
  SKERRY_TRY(source.Check());
  return taking.Take();
}

}  // namespace skerry
