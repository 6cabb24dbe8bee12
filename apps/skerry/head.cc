#include "commands.h"
#include "open_board.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board));
  SKERRY_ASSIGN(const HeadAt at, board.ReadHead(run));
  const Head& head = at.head;
  if (common.json) {
    PrintJson({{"run", run.str()},
               {"version", head.version.number()},
               {"model_digest", head.model.Hex()},
               {"epoch", head.epoch},
               {"sequence", head.sequence},
               {"publisher", head.publisher},
               {"manifest", head.manifest.key},
               {"manifest_sha256", head.manifest.sha256.Hex()},
               {"time", head.time}});
    return {};
  }
  PrintFacts({{"run", run.str()},
              {"version", head.version.ToString()},
              {"model", head.model.Hex()},
              {"epoch", fmt::format("{} (publisher {})", head.epoch, head.publisher)},
              {"moved", fmt::format("{} (write {})", head.time, head.sequence)}});
  return {};
}

}  // namespace

void AddHead(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program.Add("head", "Print where a run's head is", [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, "Board: a directory or file:///…")
      .Required("--run", args->run, "Name of the run")
      .Example("skerry head /mnt/board --run grpo-1 --json");
}

}  // namespace skerry
