#include "commands.h"
#include "open_board.h"
#include "terminal.h"
#include "views.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, view;
  std::vector<std::string> trust_keys;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const RunId run, RunOf(args.run, args.view));
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board, args.trust_keys));
  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(run));
  const Head& head = at.head;
  // What a head says is signed nowhere; its manifest says it again.
  std::optional<Manifest> checked;
  if (!board.trusted().empty()) {
    SKERRY_ASSIGN(checked, board.ReadManifest(head, head.version));
  }
  if (common.json) {
    nlohmann::ordered_json json = {{"run", run.str()},
                                   {"version", head.version.number()},
                                   {"model_digest", head.model.Hex()},
                                   {"epoch", head.epoch},
                                   {"sequence", head.sequence},
                                   {"publisher", head.publisher},
                                   {"manifest", head.manifest.key},
                                   {"manifest_sha256", head.manifest.sha256.Hex()},
                                   {"time", head.time}};
    for (const ViewHead& one : head.views) json["views"][one.view] = {{"model_digest", one.model.Hex()}};
    if (checked) json["signed_by"] = checked->signature->key.Text();
    PrintJson(json);
    return {};
  }
  std::vector<std::pair<std::string, std::string>> facts = {
      {"run", run.str()},
      {"version", head.version.ToString()},
      {"model", head.model.Hex()},
      {"epoch", fmt::format("{} (publisher {})", head.epoch, head.publisher)},
      {"moved", fmt::format("{} (write {})", head.time, head.sequence)}};
  for (const ViewHead& one : head.views) facts.emplace_back("view " + one.view, "model " + one.model.Hex());
  if (checked) facts.emplace_back("signed by", checked->signature->key.Text());
  PrintFacts(facts);
  return {};
}

}  // namespace

void AddHead(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program.Add("head", "Print where a run's head is", [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Required("--run", args->run, "Name of the run")
      .Option("--view", args->view, kViewHelp)
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry head /mnt/board --run grpo-1 --json");
}

}  // namespace skerry
