#include "skerry/engine/exec_engine.h"

#include "skerry/base/text.h"
#include "skerry/engine/child_command.h"

namespace skerry {
namespace {

std::string NameOf(std::string_view command) {
  command.remove_prefix(std::min(command.find_first_not_of(' '), command.size()));
  const std::string_view first = command.substr(0, command.find(' '));
  // "TOKEN=… command"
  return first.find('=') == std::string_view::npos ? fmt::format("exec {}", Printable(first)) : "exec";
}

std::string EndOfOutput(std::string_view output) {
  while (!output.empty() && (output.back() == '\n' || output.back() == '\r')) output.remove_suffix(1);
  return output.empty() ? "it printed nothing" : fmt::format("it printed: {}", Printable(output));
}

}  // namespace

ExecEngine::ExecEngine(const std::string& command, const EngineOptions& options)
    : ToldEngine("exec", NameOf(command), options.timeouts), command_(command) {}

Status ExecEngine::Tell(const Phase& phase) {
  std::optional<VersionLabel> weights;
  if (phase.update != nullptr) weights = ParseWeightLabel(phase.update->label);
  const auto of_update = [&](auto get) { return phase.update == nullptr ? std::string() : get(*phase.update); };
  Result<CommandOutcome> outcome = RunCommand(
      command_,
      {
          {"SKERRY_PHASE", phase.name},
          {"SKERRY_PAUSE", phase.pause},
          {"SKERRY_RUN", weights ? weights->run : ""},
          {"SKERRY_VERSION", of_update([](const WeightUpdate& update) { return update.version.ToString(); })},
          {"SKERRY_LABEL", of_update([](const WeightUpdate& update) { return update.label; })},
          {"SKERRY_MODEL", of_update([](const WeightUpdate& update) { return update.model.Hex(); })},
          {"SKERRY_CHECKPOINT", of_update([](const WeightUpdate& update) { return update.checkpoint.string(); })},
      },
      phase.time);
  if (!outcome) return Annotate(std::move(outcome).error(), fmt::format("{}: phase {}", Describe(), phase.name));
  if (outcome->timed_out) {
    return Fail(Code::kUnavailable, "{}: phase {}: not done after {} ms, killed; {}", Describe(), phase.name,
                phase.time.count(), EndOfOutput(outcome->output));
  }
  if (outcome->exit_code != 0) {
    return Fail(Code::kIo, "{}: phase {}: exit code {}; {}", Describe(), phase.name, outcome->exit_code,
                EndOfOutput(outcome->output));
  }
  return {};
}

}  // namespace skerry
