#include <algorithm>

#include "commands.h"
#include "open_board.h"
#include "terminal.h"
#include "views.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, view;
  std::vector<std::string> trust_keys;
  std::optional<uint64_t> limit = 50;
};

double Density(const Manifest& manifest) {
  return manifest.stats.elements == 0
             ? 0
             : static_cast<double>(manifest.stats.changed) / static_cast<double>(manifest.stats.elements);
}

std::string SignerOf(const Manifest& manifest) { return manifest.signature ? manifest.signature->key.Text() : ""; }

// A last column, where there is something to say in it.
void AddSigners(std::vector<std::vector<std::string>>& table, const std::vector<Manifest>& manifests, bool checked) {
  if (std::none_of(manifests.begin(), manifests.end(), [](const Manifest& m) { return m.signature.has_value(); }))
    return;
  table[0].push_back(checked ? "signed by key" : "says it is signed by key");
  for (size_t i = 0; i < manifests.size(); ++i) {
    table[i + 1].push_back(manifests[i].signature ? manifests[i].signature->key.Id() : "-");
  }
}

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const RunId run, RunOf(args.run, args.view));
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board, args.trust_keys));
  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(run));
  std::vector<Manifest> manifests;  // newest first
  SKERRY_ASSIGN(Manifest manifest, board.ReadManifest(at.head, at.head.version));
  const uint64_t limit = args.limit.value_or(50);
  while (manifests.size() < limit) {
    manifests.push_back(manifest);
    if (manifest.version.IsBase() || manifests.size() == limit) break;
    Result<Manifest> parent = board.ReadManifest(run, manifest.version.Previous(), *manifest.parent);
    if (!parent && parent.error().code == Code::kNotFound) break;  // gc removed it
    SKERRY_ASSIGN(manifest, std::move(parent));
  }
  if (common.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Manifest& m : manifests) {
      list.push_back(
          {{"version", m.version.number()},
           {"time", m.time},
           {"step", m.step ? nlohmann::ordered_json(*m.step) : nlohmann::ordered_json()},
           {"model_digest", m.model.Hex()},
           {"signed_by", SignerOf(m).empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(SignerOf(m))},
           {"anchor", !m.anchors.empty() && m.anchors[0].version == m.version},
           {"changed", m.stats.changed},
           {"density", Density(m)},
           {"patch_bytes", m.stats.patch_bytes},
           {"checkpoint_bytes", m.stats.checkpoint_bytes}});
    }
    PrintJson({{"run", run.str()}, {"signatures_checked", !board.trusted().empty()}, {"versions", list}});
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
  AddSigners(table, manifests, !board.trusted().empty());
  PrintTable(table);
  return {};
}

}  // namespace

void AddLog(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("log", "List the versions of a run, newest first",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Required("--run", args->run, "Name of the run")
      .Option("--view", args->view, kViewHelp)
      .Option("-n,--limit", args->limit, "At most so many (default 50)")
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry log /mnt/board --run grpo-1 -n 10");
}

}  // namespace skerry
