#include "skerry/publish/init.h"
#include "commands.h"
#include "open_board.h"
#include "skerry/apply/settled_checkpoint.h"
#include "terminal.h"
#include "views.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, base;
  std::string hold = "copy", sign_key;
  std::vector<std::string> views;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  const Stopwatch watch;
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  // Before a board is made for it.
  if (run.IsView()) {
    return Fail(Code::kInvalid, "--run {}: the views of a run are given when it starts, by --view NAME=CKPT", run);
  }
  SKERRY_ASSIGN(const Checkpoint base, OpenSettledCheckpoint(args.base));
  SKERRY_ASSIGN(const GivenViews views, GivenViews::Open(args.views));
  SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(args.board, /*create=*/true));
  SKERRY_ASSIGN(Board board, Board::Create(std::move(store)));
  SKERRY_TRY(TrustKeys(board, {}));
  SKERRY_TRY(SignVersions(board, args.sign_key));
  const BaseMode mode = args.hold == "link"        ? BaseMode::kLink
                        : args.hold == "reference" ? BaseMode::kReference
                                                   : BaseMode::kCopy;
  SKERRY_ASSIGN(const InitReceipt receipt,
                InitRun(board, run, base, views.checkpoints(), mode, common.threads, Clock::System(), *progress));
  for (const std::string& warning : base.warnings()) PrintWarning(warning);
  if (const auto writes = board.writes(); writes && *writes != WriteSafety::kFull) {
    PrintWarning(fmt::format("conditional writes of this store are '{}': {} (`skerry probe` tells more)",
                             NameOf(*writes), WhatFollows(*writes)));
  }
  if (common.json) {
    nlohmann::ordered_json of_views = nlohmann::ordered_json::object();
    for (const auto& [view, one] : receipt.views) {
      of_views[view] = {{"model_digest", one.model.Hex()}, {"layout_digest", one.layout.Hex()}, {"bytes", one.bytes}};
    }
    PrintJson({{"board", args.board},
               {"run", run.str()},
               {"version", 0},
               {"created", receipt.created},
               {"writes", board.writes() ? nlohmann::ordered_json(NameOf(*board.writes())) : nlohmann::ordered_json()},
               {"model_digest", receipt.model.Hex()},
               {"layout_digest", receipt.layout.Hex()},
               {"bytes", receipt.bytes},
               {"views", std::move(of_views)},
               {"seconds", watch.Seconds()}});
    return {};
  }
  fmt::print("run {} {} version 0 on {}\n", run, receipt.created ? "starts at" : "is there already, at", args.board);
  PrintFacts({{"model", receipt.model.Hex()},
              {"layout", receipt.layout.Hex()},
              {"base", fmt::format("{}, {}", HumanBytes(receipt.bytes),
                                   mode == BaseMode::kReference ? "by reference"
                                   : args.hold == "link"        ? "hard-linked"
                                                                : "copied")}});
  for (const auto& [view, one] : receipt.views) {
    PrintFacts({{"view " + view, fmt::format("{}, model {}", HumanBytes(one.bytes), one.model.Short())}});
  }
  return {};
}

}  // namespace

void AddInit(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("init", "Start a run on a board: version 0 is the base checkpoint",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, std::string(kBoardHelp) + "; a directory is made if missing")
      .Required("--run", args->run, "Name of the run")
      .Required("--base", args->base, "Checkpoint directory that the islands start from")
      .Option("--view", args->views, kViewsHelp)
      .Choice("--hold", args->hold, {"copy", "link", "reference"},
              "How the board holds the base: its own copy; hard links (the files must never be written again); or only "
              "path and SHA-256 (readers must see the same path)")
      .Option("--sign-key", args->sign_key, kSignKeyHelp)
      .Example(
          "skerry init /mnt/board --run grpo-1 --base /ckpt/base\n"
          "  skerry init /mnt/board --run grpo-2 --base /ckpt/base --view fp8-block=/ckpt/base-fp8");
}

}  // namespace skerry
