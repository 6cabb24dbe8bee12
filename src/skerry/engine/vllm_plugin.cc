#include "skerry/engine/vllm_plugin.h"

#include <algorithm>

#include "skerry/base/text.h"

namespace skerry {
namespace {

constexpr const char* kRoute = "/collective_rpc";
// Between two looks at a preparation: the first ones come quickly, since small updates are ready at once.
constexpr std::chrono::milliseconds kFirstPause{2}, kLongestPause{100};

}  // namespace

Result<VllmPlugin::Answers> VllmPlugin::Call(const std::string& method, const Json& arguments, uint64_t workers,
                                             std::chrono::milliseconds time) {
  Json body = {{"method", method}};
  if (!arguments.is_null()) body["kwargs"] = arguments;
  SKERRY_ASSIGN(const Json reply, api_.Post(kRoute, body, time));
  const auto results = reply.find("results");
  if (results == reply.end() || !results->is_array()) {
    return api_.Complain(Code::kIo, "POST", kRoute, fmt::format("{}: the reply has no results", method));
  }
  Answers answers(results->begin(), results->end());
  if (answers.size() != workers) {
    return api_.Complain(
        Code::kMismatch, "POST", kRoute,
        fmt::format(
            "{}: {} of {} workers answered (a data-parallel engine shows one part of itself: run one server for "
            "each part)",
            method, answers.size(), workers));
  }
  return answers;
}

Status VllmPlugin::Judge(const std::string& method, const Answers& answers, const std::string& label) const {
  for (size_t worker = 0; worker < answers.size(); ++worker) {
    const Json& answer = answers[worker];
    const std::string who = fmt::format("{}: worker {} of {}", method, worker, answers.size());
    if (BoolField(answer, "ok") != true) {
      const std::string error = Printable(TextField(answer, "error").substr(0, ControlApi::kShownBody));
      return api_.Complain(Code::kIo, "POST", kRoute,
                           fmt::format("{} failed: {}", who, error.empty() ? "it does not say why" : error));
    }
    if (const std::string its = TextField(answer, "label"); answer.contains("label") && its != label) {
      return api_.Complain(Code::kMismatch, "POST", kRoute,
                           fmt::format("{} is at '{}', not '{}'", who, Printable(its), label));
    }
  }
  return {};
}

Result<std::optional<PluginStatus>> VllmPlugin::Status(uint64_t workers) {
  Result<Answers> answers = Call("skerry_status", nullptr, workers, api_.timeouts().control);
  if (!answers) {
    // vLLM answers 500 for a method that its workers don't have.
    const Code code = answers.error().code;
    if (code == Code::kIo || code == Code::kUnsupported) return std::optional<PluginStatus>();
    return tl::unexpected<Error>(std::move(answers).error());
  }
  PluginStatus status;
  for (const Json& answer : *answers) {
    if (BoolField(answer, "ok") != true) return std::optional<PluginStatus>();
    const bool first = &answer == &answers->front();
    std::string label = TextField(answer, "label");
    if (TextField(answer, "state") == "uncertain" || label == "?") label = kUncertainLabel;
    if (first) status.label = label;
    if (label != status.label) status.label = kUncertainLabel;
    status.instance += (first ? "" : ",") + TextField(answer, "instance");
    if (status.unsupported.empty()) status.unsupported = Printable(TextField(answer, "unsupported"));
  }
  return std::optional<PluginStatus>(std::move(status));
}

Status VllmPlugin::Prepare(const WeightUpdate& update, uint64_t workers) {
  const std::string base = update.changes ? update.changes->from : "";
  const std::string positions = update.changes ? update.changes->positions.string() : "";
  SKERRY_ASSIGN(const Answers started, Call("skerry_prepare",
                                            {{"label", update.label},
                                             {"base", base},
                                             {"checkpoint", update.checkpoint.string()},
                                             {"positions", positions}},
                                            workers, api_.timeouts().control));
  SKERRY_TRY(Judge("skerry_prepare", started, update.label));
  std::chrono::milliseconds waited{0}, pause = kFirstPause;
  while (true) {
    SKERRY_ASSIGN(const Answers answers,
                  Call("skerry_prepared", {{"label", update.label}}, workers, api_.timeouts().control));
    SKERRY_TRY(Judge("skerry_prepared", answers, update.label));
    if (std::all_of(answers.begin(), answers.end(),
                    [](const Json& answer) { return TextField(answer, "state") == "prepared"; })) {
      return {};
    }
    if (waited >= api_.timeouts().load) {
      return api_.Complain(Code::kUnavailable, "POST", kRoute,
                           fmt::format("skerry_prepared: not ready after {} ms", waited.count()));
    }
    waiting_.sleep(pause);
    waited += pause;
    pause = std::min(pause * 2, kLongestPause);
  }
}

Status VllmPlugin::Commit(const WeightUpdate& update, uint64_t workers) {
  SKERRY_ASSIGN(const Answers answers, Call("skerry_commit", {{"label", update.label}}, workers, api_.timeouts().load));
  return Judge("skerry_commit", answers, update.label);
}

Status VllmPlugin::Verify(const WeightUpdate& update, uint64_t workers) {
  SKERRY_ASSIGN(const Answers answers, Call("skerry_verify", {{"label", update.label}}, workers, api_.timeouts().load));
  return Judge("skerry_verify", answers, update.label);
}

}  // namespace skerry
