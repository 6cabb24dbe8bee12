#include "commands.h"
#include "open_board.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run;
  std::optional<uint64_t> limit = 50;
};

double Density(const Manifest& manifest) {
  return manifest.stats.elements == 0
             ? 0
             : static_cast<double>(manifest.stats.changed) / static_cast<double>(manifest.stats.elements);
}

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board));
  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(run));
  std::vector<Manifest> manifests;  // newest first
  SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(at.head, at.head.version));
  const uint64_t limit = args.limit.value_or(50);
  while (manifests.size() < limit) {
    manifests.push_back(manifest);
    if (manifest.version.IsBase()) break;
    SKERRY_ASSIGN(manifest, board.ReadParent(manifests.back()));
  }
  if (common.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Manifest& m : manifests) {
      list.push_back({{"version", m.version.number()},
                      {"time", m.time},
                      {"step", m.step ? nlohmann::ordered_json(*m.step) : nlohmann::ordered_json()},
                      {"model_digest", m.model.Hex()},
                      {"anchor", m.anchor.has_value()},
                      {"changed", m.stats.changed},
                      {"density", Density(m)},
                      {"patch_bytes", m.stats.patch_bytes},
                      {"checkpoint_bytes", m.stats.checkpoint_bytes}});
    }
    PrintJson({{"run", run.str()}, {"versions", list}});
    return {};
  }
  std::vector<std::vector<std::string>> table = {
      {"version", "step", "changed", "density", "patch", "a change", "model", "time"}};
  for (const Manifest& m : manifests) {
    const bool delta = m.stats.patch_bytes > 0;
    table.push_back({m.version.ToString(), m.step ? std::to_string(*m.step) : "-", Grouped(m.stats.changed),
                     Percent(Density(m)), delta ? HumanBytes(m.stats.patch_bytes) : "anchor",
                     m.stats.changed > 0 ? fmt::format("{:.3f} B", static_cast<double>(m.stats.patch_bytes) /
                                                                       static_cast<double>(m.stats.changed))
                                         : "-",
                     m.model.Short(), m.time});
  }
  PrintTable(table);
  return {};
}

}  // namespace

void AddLog(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("log", "List the versions of a run, newest first",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, "Board: a directory or file:///…")
      .Required("--run", args->run, "Name of the run")
      .Option("-n,--limit", args->limit, "At most so many (default 50)")
      .Example("skerry log /mnt/board --run grpo-1 -n 10");
}

}  // namespace skerry
