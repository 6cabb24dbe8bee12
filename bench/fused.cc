// Views that are made and compared in one pass, as a trainer's publish takes them: Capture::Take and TakeFp8Block on
// one thread, beside a plain compare-scan of the same masters in the same repetition.
//
// Masters are F32 or BF16 matrices of the shapes of an 8 B model's layer, normal with a deviation of 0.02. A step moves
// each F32 master by a normal amount, chosen so that 0.9 % or 0.1 % of the elements change in BF16, and a BF16 one as
// those, rounded. The snapshot is what is served of the masters before the step.
//
// Seconds are those of the thread, so that what else the machine does counts less.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

#include "skerry/base/simd.h"
#include "skerry/diff/find_changes.h"
#include "skerry/diff/narrow.h"
#include "skerry/publish/capture.h"

namespace skerry {
namespace {

constexpr const char* kUsage = "usage: fused [--gib GIB OF MASTERS] [--reps N]      1 GiB of F32, 7\n";
constexpr uint64_t kShapes[][2] = {{4096, 4096}, {14336, 4096}, {4096, 14336}};

// Deviations of steps that change 0.9 % and 0.1 % of BF16 elements.
constexpr float kLargeStep = 2.15e-7f, kSmallStep = 1.8e-8f;

struct Matrix {
  uint64_t rows, columns;
  Bytes before, after;  // masters

  uint64_t units() const { return rows * columns; }
};

// Served tensors in memory.
class Served : public TensorSource {
 public:
  Served(std::vector<LayoutTensor> tensors, std::vector<Bytes> bytes)
      : layout_(Layout::WithoutFiles(std::move(tensors))), bytes_(std::move(bytes)) {}

  const Layout& layout() const override { return layout_; }
  Result<ByteSpan> Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes&) const override {
    return ByteSpan(bytes_[ordinal]).subspan(offset, length);
  }
  Status Check() const override { return {}; }
  Bytes& bytes(size_t ordinal) { return bytes_[ordinal]; }

 private:
  Layout layout_;
  std::vector<Bytes> bytes_;
};

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// `units` masters before and after a step: one of 2^16 draws each, so that a GiB is made in a second.
void Fill(Matrix& matrix, DType dtype, float step, std::mt19937_64& random) {
  constexpr size_t kDraws = 1 << 16;
  std::normal_distribution<float> weights(0, 0.02f), steps(0, step);
  std::vector<float> before(kDraws), after(kDraws);
  for (size_t i = 0; i < kDraws; ++i) {
    before[i] = weights(random);
    after[i] = before[i] + steps(random);
  }
  const auto unit = static_cast<size_t>(DTypeUnit(dtype));
  Bytes old_draws(kDraws * unit), new_draws(kDraws * unit);
  for (auto [from, to] : {std::pair(&before, &old_draws), std::pair(&after, &new_draws)}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(from->data());
    if (dtype == DType::kF32) std::memcpy(to->data(), bytes, to->size());
    if (dtype == DType::kBF16) NarrowF32(bytes, kDraws, dtype, to->data());
  }
  matrix.before.resize(matrix.units() * unit);
  matrix.after.resize(matrix.units() * unit);
  uint64_t state = random();
  for (uint64_t i = 0; i < matrix.units(); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const uint64_t draw = state >> 48;
    std::memcpy(&matrix.before[i * unit], &old_draws[draw * unit], unit);
    std::memcpy(&matrix.after[i * unit], &new_draws[draw * unit], unit);
  }
}

class Best {
 public:
  void Note(double seconds, double scan) {
    seconds_ = std::min(seconds_, seconds);
    ratios_.push_back(scan / seconds);
  }
  double seconds() const { return seconds_; }
  double MedianRatio() {
    std::ranges::sort(ratios_);
    return ratios_[ratios_.size() / 2];
  }

 private:
  double seconds_ = 1e300;
  std::vector<double> ratios_;
};

struct View {
  std::string name;
  std::unique_ptr<Served> snapshot;
  std::function<Result<uint64_t>(Capture&, size_t matrix, ByteSpan masters)> take;  // gives re-scaled blocks
  Best best;
  uint64_t changed = 0, rescaled = 0;
};

LayoutTensor TensorOf(std::string name, DType dtype, uint64_t rows, uint64_t columns) {
  return {.name = std::move(name),
          .dtype = dtype,
          .shape = {rows, columns},
          .bytes = rows * columns * static_cast<uint64_t>(DTypeUnit(dtype))};
}

// The snapshot holds what is taken of the masters before the step.
Status Serve(View& view, const std::vector<Matrix>& matrices) {
  Capture capture(*view.snapshot, 1, 1);
  for (size_t i = 0; i < matrices.size(); ++i) SKERRY_TRY(view.take(capture, i, matrices[i].before));
  for (size_t i = 0; i < view.snapshot->layout().tensors().size(); ++i) {
    Bytes scratch;
    SKERRY_ASSIGN(const ByteSpan bytes, capture.Read(i, 0, view.snapshot->layout().tensors()[i].bytes, scratch));
    view.snapshot->bytes(i) = Bytes(bytes.begin(), bytes.end());
  }
  return {};
}

Result<View> RoundedView(const std::vector<Matrix>& matrices, DType masters) {
  View view{.name = fmt::format("bf16 of {}", DTypeName(masters))};
  std::vector<LayoutTensor> tensors;
  std::vector<Bytes> bytes;
  for (size_t i = 0; i < matrices.size(); ++i) {
    tensors.push_back(TensorOf(fmt::format("{:04}", i), DType::kBF16, matrices[i].rows, matrices[i].columns));
    bytes.emplace_back(tensors.back().bytes);
  }
  view.snapshot = std::make_unique<Served>(std::move(tensors), std::move(bytes));
  view.take = [masters](Capture& capture, size_t i, ByteSpan values) -> Result<uint64_t> {
    SKERRY_TRY(capture.Take(i, 0, masters, values));
    return 0;
  };
  SKERRY_TRY(Serve(view, matrices));
  return view;
}

Result<View> Fp8View(const std::vector<Matrix>& matrices, DType masters, Fp8Scales policy, std::string_view name) {
  View view{.name = fmt::format("fp8-block of {}, {}", DTypeName(masters), name)};
  std::vector<LayoutTensor> tensors;
  std::vector<Bytes> bytes;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& matrix = matrices[i];
    tensors.push_back(TensorOf(fmt::format("{:04}.weight", i), DType::kF8E4M3, matrix.rows, matrix.columns));
    tensors.push_back(TensorOf(fmt::format("{:04}.weight_scale_inv", i), DType::kF32, matrix.rows / kFp8BlockSide,
                               matrix.columns / kFp8BlockSide));
    for (size_t t = 0; t < 2; ++t) bytes.emplace_back(tensors[2 * i + t].bytes);
  }
  view.snapshot = std::make_unique<Served>(std::move(tensors), std::move(bytes));
  view.take = [masters, policy](Capture& capture, size_t i, ByteSpan values) {
    return capture.TakeFp8Block(2 * i, 2 * i + 1, masters, values, policy);
  };
  SKERRY_TRY(Serve(view, matrices));
  return view;
}

Result<double> TimeView(View& view, const std::vector<Matrix>& matrices) {
  Capture capture(*view.snapshot, 1, 1);
  view.rescaled = 0;
  const double began = ThreadSeconds();
  for (size_t i = 0; i < matrices.size(); ++i) {
    SKERRY_ASSIGN(const uint64_t rescaled, view.take(capture, i, matrices[i].after));
    view.rescaled += rescaled;
  }
  const double seconds = ThreadSeconds() - began;
  view.changed = capture.changed();
  return seconds;
}

// The specification's result, for all of it.
Status CheckView(View& view, const std::vector<Matrix>& matrices) {
  const uint64_t changed = view.changed, rescaled = view.rescaled;
  SKERRY_TRY(SetSimd("scalar"));
  SKERRY_TRY(TimeView(view, matrices));
  SKERRY_TRY(SetSimd("best"));
  if (changed == view.changed && rescaled == view.rescaled) return {};
  return Fail(Code::kCorrupt, "{}: {} changes and {} scales, the specification has {} and {}", view.name, changed,
              rescaled, view.changed, view.rescaled);
}

Status RunMasters(double gib, DType dtype, float step, int reps) {
  std::mt19937_64 random(20261130);
  std::vector<Matrix> matrices;
  const auto unit = static_cast<uint64_t>(DTypeUnit(dtype));
  uint64_t units = 0;
  for (size_t i = 0; static_cast<double>(units) * 4 < gib * 0x1p30; ++i) {
    const auto [rows, columns] = kShapes[i % std::size(kShapes)];
    matrices.push_back({.rows = rows, .columns = columns});
    Fill(matrices.back(), dtype, step, random);
    units += matrices.back().units();
  }
  std::vector<View> views;
  SKERRY_ASSIGN(View rounded, RoundedView(matrices, dtype));
  views.push_back(std::move(rounded));
  for (const std::string_view name : {"frozen", "recompute", "power-of-two"}) {
    SKERRY_ASSIGN(View view, Fp8View(matrices, dtype, *Fp8ScalesFromName(name), name));
    views.push_back(std::move(view));
  }
  Best scan;
  for (int rep = 0; rep < reps; ++rep) {
    for (View& view : views) {
      // A scan just before each view: neighbours on the host weigh on both.
      const double began = ThreadSeconds();
      uint64_t differ = 0;
      for (const Matrix& matrix : matrices) {
        differ += CountChanges(matrix.before.data(), matrix.after.data(), matrix.units(), static_cast<int>(unit));
      }
      const double seconds = ThreadSeconds() - began;
      if (differ == 0) return Fail(Code::kCorrupt, "the step changed no master");
      scan.Note(seconds, seconds);
      SKERRY_ASSIGN(const double mine, TimeView(view, matrices));
      view.best.Note(mine, seconds);
    }
  }
  const double bytes = static_cast<double>(units * unit), count = static_cast<double>(units);
  fmt::print("{:.2f} GB of {} masters in {} matrices; scan {:.2f} GB/s\n", bytes / 1e9, DTypeName(dtype),
             matrices.size(), bytes / scan.seconds() / 1e9);
  for (View& view : views) {
    SKERRY_TRY(CheckView(view, matrices));
    fmt::print("  {:32} {:6.2f} GB/s   {:.2f} x the scan (median {:.2f})   {:.4f} % changed, {:.2f} % of scales\n",
               view.name, bytes / view.best.seconds() / 1e9, scan.seconds() / view.best.seconds(),
               view.best.MedianRatio(), 100 * static_cast<double>(view.changed) / count,
               100 * static_cast<double>(view.rescaled) / count * kFp8BlockSide * kFp8BlockSide);
  }
  return {};
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  using namespace skerry;
  double gib = 1;
  int reps = 7;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view argument = argv[i];
    if (argument == "--gib" && i + 1 < argc) {
      gib = std::atof(argv[i + 1]);
    } else if (argument == "--reps" && i + 1 < argc) {
      reps = std::max(1, std::atoi(argv[i + 1]));
    } else {
      fmt::print(stderr, kUsage);
      return 2;
    }
  }
  fmt::print("{}, one thread\n", SimdName());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const float step : {kLargeStep, kSmallStep}) {
      if (const Status done = RunMasters(gib, dtype, step, reps); !done) {
        fmt::print(stderr, "fused: {}\n", done.error().message);
        return 1;
      }
    }
  }
  return 0;
}
