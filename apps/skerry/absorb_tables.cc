#include <cmath>

#include "absorb_report.h"
#include "terminal.h"

namespace skerry {
namespace {

using Row = std::vector<std::string>;

// Shares of weights below this are not worth a line.
constexpr double kLeastShare = 5e-4;

std::string Times(double value, double of) { return of > 0 ? fmt::format("{:.2f} x", value / of) : "-"; }

std::string HumanBytes(double bytes) { return skerry::HumanBytes(static_cast<uint64_t>(std::llround(bytes))); }

std::string MeanName(const AbsorbReport& report) {
  return fmt::format("steps {}-{}", report.first_step, report.last_step);
}

void PrintExponents(const AbsorbReport& report) {
  const ViewPrediction& prediction = report.predictions.front();
  const ViewCensus& view = report.views().front();
  fmt::print("\n{}: a step shows where it crosses the boundary, half of a cell\n", view.view->name);
  std::vector<Row> table = {{"weights from", "share", "boundary", "step 1 shows", MeanName(report)}};
  double rest = 0;
  for (const auto& [power, exponent] : prediction.exponents) {
    const double share = report.Density(static_cast<double>(exponent.weights));
    if (share < kLeastShare) {
      rest += share;
      continue;
    }
    table.push_back({fmt::format("2^{} ({:.2g})", power, std::ldexp(1.0, power)), fmt::format("{:.2f} %", 100 * share),
                     fmt::format("{:.2g}", exponent.boundary), FinePercent(exponent.shows[report.steps.front()]),
                     FinePercent(report.Mean([&](size_t move) { return exponent.shows[move]; }))});
  }
  PrintTable(table);
  if (rest > 0) fmt::print("{} of the weights have other exponents.\n", FinePercent(rest));
}

void PrintViews(const AbsorbReport& report) {
  fmt::print("\nof all weights, and bytes a step; over the link beside a whole checkpoint\n");
  std::vector<Row> table = {
      {"view", "step 1", MeanName(report), "patch", "checkpoint", "patch takes", "checkpoint takes"}};
  for (size_t v = 0; v < report.views().size(); ++v) {
    const auto whole = static_cast<double>(report.views()[v].tensor_bytes);
    table.push_back(
        {std::string(report.views()[v].view->name), FinePercent(report.Density(report.FirstStep(v).changed)),
         FinePercent(report.Density(report.MeanChanged(v))), HumanBytes(report.MeanBytes(v)), HumanBytes(whole),
         HumanSeconds(report.Seconds(report.MeanBytes(v))), HumanSeconds(report.Seconds(whole))});
  }
  PrintTable(table);
}

void PrintKinds(const AbsorbReport& report) {
  fmt::print("\nby kind of tensor, {}\n", MeanName(report));
  std::vector<Row> table = {{"kind", "weights"}};
  for (const ViewCensus& view : report.views()) table[0].emplace_back(view.view->name);
  for (size_t kind = 0; kind < kTensorKinds; ++kind) {
    if (report.census.kinds[kind] == 0) continue;
    const auto weights = static_cast<double>(report.census.kinds[kind]);
    Row row = {std::string(TensorKindName(static_cast<TensorKind>(kind))), Grouped(report.census.kinds[kind])};
    for (const ViewPrediction& prediction : report.predictions) {
      row.push_back(
          FinePercent(report.Mean([&](size_t move) { return prediction.steps[move].kind_changed[kind]; }) / weights));
    }
    table.push_back(std::move(row));
  }
  PrintTable(table);
}

// Sums over versions, measured and predicted, by kind of tensor.
void PrintMeasuredKinds(const AbsorbReport& report, const MeasuredRun& run) {
  std::vector<Row> table = {{"kind", "measured", "predicted", "predicted/measured"}};
  for (size_t kind = 0; kind < kTensorKinds; ++kind) {
    double measured = 0, predicted = 0, weights = 0;
    for (size_t i = 0; i < run.versions.size(); ++i) {
      if (!run.versions[i].detail) continue;
      measured += static_cast<double>(run.versions[i].detail->kinds[kind]);
      predicted += report.predictions[run.view].steps[run.moves[i]].kind_changed[kind];
      weights += static_cast<double>(report.census.kinds[kind]);
    }
    if (weights == 0) continue;
    table.push_back({std::string(TensorKindName(static_cast<TensorKind>(kind))), FinePercent(measured / weights),
                     FinePercent(predicted / weights), Times(predicted, measured)});
  }
  if (table.size() > 1) PrintTable(table);
}

void PrintMeasured(const AbsorbReport& report, const MeasuredRun& run) {
  fmt::print("\nrun {} ({}), measured beside predicted\n", run.run, report.views()[run.view].view->name);
  std::vector<Row> table = {
      {"version", "steps", "measured", "predicted", "predicted/measured", "patch", "predicted patch"}};
  double measured = 0, predicted = 0;
  for (size_t i = 0; i < run.versions.size(); ++i) {
    const MeasuredVersion& version = run.versions[i];
    const ViewStep& expected = report.predictions[run.view].steps[run.moves[i]];
    measured += static_cast<double>(version.changed);
    predicted += expected.changed;
    table.push_back(
        {version.version.ToString(),
         version.steps.to == version.steps.from + 1 ? std::to_string(version.steps.to)
                                                    : fmt::format("{}-{}", version.steps.from + 1, version.steps.to),
         FinePercent(report.Density(static_cast<double>(version.changed))),
         FinePercent(report.Density(expected.changed)), Times(expected.changed, static_cast<double>(version.changed)),
         skerry::HumanBytes(version.patch_bytes), HumanBytes(expected.bytes)});
  }
  const double count = std::max(1.0, static_cast<double>(run.versions.size()));
  table.push_back({"mean", "", FinePercent(report.Density(measured / count)),
                   FinePercent(report.Density(predicted / count)), Times(predicted, measured), "", ""});
  PrintTable(table);
  PrintMeasuredKinds(report, run);
}

}  // namespace

std::string FinePercent(double fraction) {
  const double percent = 100 * fraction;
  const int digits = percent <= 0 ? 0 : std::clamp(2 - static_cast<int>(std::floor(std::log10(percent))), 0, 7);
  return fmt::format("{:.{}f} %", percent, digits);
}

std::string HumanSeconds(double seconds) {
  if (seconds >= 100) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.1f} ms", 1e3 * seconds);
  return fmt::format("{:.1f} us", 1e6 * seconds);
}

void PrintAbsorb(const AbsorbReport& report) {
  const Settings& settings = report.settings;
  PrintFacts({{"checkpoint", fmt::format("{} ({} weights, {} of them zero)", report.checkpoint,
                                         Grouped(report.census.weights), Grouped(report.census.zeros))},
              {"training", fmt::format("{}, lr {:g}, betas {:g} and {:g}{}", report.optimizer, settings.lr,
                                       settings.beta1, settings.beta2,
                                       settings.warmup > 1 ? fmt::format(", warm-up {} steps", settings.warmup) : "")},
              {"masters", fmt::format("{}, signal {:g}",
                                      settings.masters == Masters::kServed ? "served (at the checkpoint's own numbers)"
                                                                           : "settled (anywhere in their cells)",
                                      settings.signal)},
              {"codes", settings.views_of == ViewsOf::kServed ? "of what is served in BF16" : "of the masters"}});
  if (report.census.passed_over > 0) {
    PrintWarning(
        fmt::format("{} elements are no BF16, F16 or F32 and were passed over", Grouped(report.census.passed_over)));
  }
  PrintExponents(report);
  PrintViews(report);
  PrintKinds(report);
  for (const MeasuredRun& run : report.measured) PrintMeasured(report, run);
}

}  // namespace skerry
