#include "absorb_report.h"

namespace skerry {
namespace {

using Json = nlohmann::ordered_json;

Json ViewJson(const AbsorbReport& report, size_t v) {
  const ViewCensus& view = report.views()[v];
  const ViewPrediction& prediction = report.predictions[v];
  Json json = {{"view", view.view->name},
               {"checkpoint_bytes", view.tensor_bytes},
               {"quantised_weights", view.quantised},
               {"scales", view.scales},
               {"mean",
                {{"density", report.Density(report.MeanChanged(v))},
                 {"changed", report.MeanChanged(v)},
                 {"patch_bytes", report.MeanBytes(v)},
                 {"patch_seconds", report.Seconds(report.MeanBytes(v))},
                 {"checkpoint_seconds", report.Seconds(static_cast<double>(view.tensor_bytes))}}},
               {"steps", Json::array()},
               {"kinds", Json::object()},
               {"exponents", Json::array()}};
  for (const size_t move : report.steps) {
    const ViewStep& step = prediction.steps[move];
    json["steps"].push_back({{"step", step.steps.to},
                             {"density", report.Density(step.changed)},
                             {"changed", step.changed},
                             {"quantised_changed", step.quantised_changed},
                             {"patch_bytes", step.bytes}});
  }
  for (size_t kind = 0; kind < kTensorKinds; ++kind) {
    if (report.census.kinds[kind] == 0) continue;
    const double changed = report.Mean([&](size_t move) { return prediction.steps[move].kind_changed[kind]; });
    json["kinds"][TensorKindName(static_cast<TensorKind>(kind))] = {
        {"weights", report.census.kinds[kind]}, {"density", changed / static_cast<double>(report.census.kinds[kind])}};
  }
  for (const auto& [power, exponent] : prediction.exponents) {
    json["exponents"].push_back({{"exponent", power},
                                 {"weights", exponent.weights},
                                 {"boundary", exponent.boundary},
                                 {"first", exponent.shows[report.steps.front()]},
                                 {"mean", report.Mean([&](size_t move) { return exponent.shows[move]; })}});
  }
  return json;
}

Json RunJson(const AbsorbReport& report, const MeasuredRun& run) {
  Json json = {{"run", run.run.str()}, {"view", report.views()[run.view].view->name}, {"versions", Json::array()}};
  for (size_t i = 0; i < run.versions.size(); ++i) {
    const MeasuredVersion& version = run.versions[i];
    const ViewStep& predicted = report.predictions[run.view].steps[run.moves[i]];
    Json one = {
        {"version", version.version.number()}, {"steps", {version.steps.from, version.steps.to}},
        {"changed", version.changed},          {"density", report.Density(static_cast<double>(version.changed))},
        {"patch_bytes", version.patch_bytes},  {"predicted_density", report.Density(predicted.changed)},
        {"predicted_bytes", predicted.bytes}};
    if (version.detail) {
      for (size_t kind = 0; kind < kTensorKinds; ++kind) {
        const auto weights = static_cast<double>(report.census.kinds[kind]);
        if (weights == 0) continue;
        one["kinds"][TensorKindName(static_cast<TensorKind>(kind))] = {
            {"density", static_cast<double>(version.detail->kinds[kind]) / weights},
            {"predicted_density", predicted.kind_changed[kind] / weights}};
      }
      one["exponents"] = Json::array();
      for (const auto& [power, changed] : version.detail->exponents) {
        one["exponents"].push_back({{"exponent", power}, {"changed", changed}});
      }
    }
    json["versions"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

Json AbsorbJson(const AbsorbReport& report) {
  const Settings& settings = report.settings;
  Json json = {{"checkpoint", report.checkpoint},
               {"settings",
                {{"lr", settings.lr},
                 {"optimizer", report.optimizer},
                 {"beta1", settings.beta1},
                 {"beta2", settings.beta2},
                 {"eps", settings.epsilon},
                 {"warmup", settings.warmup},
                 {"masters", settings.masters == Masters::kServed ? "served" : "settled"},
                 {"views_of", settings.views_of == ViewsOf::kServed ? "served" : "masters"},
                 {"signal", settings.signal},
                 {"gradient_norm", settings.gradient_norm},
                 {"steps", {report.first_step, report.last_step}},
                 {"link_bits_per_second", report.link_bits_per_second}}},
               {"weights", report.census.weights},
               {"zeros", report.census.zeros},
               {"passed_over", report.census.passed_over},
               {"views", Json::array()},
               {"measured", Json::array()}};
  for (size_t v = 0; v < report.views().size(); ++v) json["views"].push_back(ViewJson(report, v));
  for (const MeasuredRun& run : report.measured) json["measured"].push_back(RunJson(report, run));
  return json;
}

}  // namespace skerry
