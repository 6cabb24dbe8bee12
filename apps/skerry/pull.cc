#include "commands.h"
#include "open_board.h"
#include "skerry/apply/catch_up.h"
#include "skerry/base/clock.h"
#include "terminal.h"
#include "views.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, view, output;
  std::vector<std::string> trust_keys;
  std::optional<uint64_t> version;
  std::optional<uint64_t> wait = 60, undo;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  const Stopwatch watch;
  SKERRY_ASSIGN(const RunId run, RunOf(args.run, args.view));
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board, args.trust_keys));
  CatchUpOptions options{.threads = common.threads};
  options.patience.limit = std::chrono::seconds(args.wait.value_or(60));
  options.canonical.undo.versions = args.undo.value_or(0);
  if (args.version) options.version = Version(*args.version);
  SKERRY_ASSIGN(const CatchUpReceipt receipt, CatchUp(board, run, args.output, options, *progress));
  if (!receipt.healed.empty()) {
    PrintWarning("the local checkpoint was damaged and has been rebuilt: " + receipt.healed);
  }
  if (common.json) {
    nlohmann::ordered_json json = {{"run", run.str()},
                                   {"version", receipt.version.number()},
                                   {"from", nullptr},
                                   {"patches", receipt.patches},
                                   {"bytes_fetched", receipt.bytes_fetched},
                                   {"changed", receipt.changed},
                                   {"model_digest", receipt.model.Hex()},
                                   {"healed", !receipt.healed.empty()},
                                   {"seconds",
                                    {{"plan", receipt.plan_seconds},
                                     {"fetch", receipt.fetch_seconds},
                                     {"apply", receipt.apply_seconds},
                                     {"total", watch.Seconds()}}}};
    if (receipt.from) json["from"] = receipt.from->number();
    PrintJson(json);
    return {};
  }
  if (receipt.from == receipt.version) {
    fmt::print("{} is at version {} already\n", args.output, receipt.version);
    return {};
  }
  fmt::print("{} is at version {}\n", args.output, receipt.version);
  PrintFacts({{"from", receipt.from ? fmt::format("version {}", *receipt.from) : "an anchor"},
              {"patches", fmt::format("{}", receipt.patches)},
              {"fetched", HumanBytes(receipt.bytes_fetched)},
              {"model", receipt.model.Hex() + " (verified)"},
              {"time", fmt::format("plan {:.2f} s, fetch {:.2f}, apply {:.2f}", receipt.plan_seconds,
                                   receipt.fetch_seconds, receipt.apply_seconds)}});
  return {};
}

}  // namespace

void AddPull(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("pull", "Bring a checkpoint directory to a version of a run",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Required("--run", args->run, "Name of the run")
      .Option("--view", args->view, kViewHelp)
      .Required("-o,--output", args->output, "Checkpoint directory; made if missing, moved forward in place if there")
      .Option("--version", args->version, "Version (default: the head)")
      .Option("--wait", args->wait, "Seconds to wait for files that are announced but not visible yet (default 60)")
      .Option(
          "--undo", args->undo,
          "Keep what the last so many moves replaced, for skerry rollback (default 0: none, and what was kept goes)")
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry pull /mnt/board --run grpo-1 -o /island/ckpt");
}

}  // namespace skerry
