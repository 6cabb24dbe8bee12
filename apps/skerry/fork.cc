#include "skerry/publish/fork.h"

#include "commands.h"
#include "open_board.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, from, sign_key;
  std::vector<std::string> trust_keys;
  std::optional<uint64_t> version;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  SKERRY_ASSIGN(const RunId from, RunId::Parse(args.from));
  std::optional<Version> version;
  if (args.version) {
    if (*args.version > Version::kMax)
      return Fail(Code::kInvalid, "--version {} is above {}", *args.version, Version::kMax);
    version = Version(*args.version);
  }
  SKERRY_ASSIGN(Board board, OpenBoard(args.board, args.trust_keys));
  SKERRY_TRY(SignVersions(board, args.sign_key));
  SKERRY_ASSIGN(const ForkReceipt receipt, ForkRun(board, run, from, version, Clock::System()));
  if (common.json) {
    PrintJson({{"board", args.board},
               {"run", run.str()},
               {"from_run", receipt.origin.run.str()},
               {"from_version", receipt.origin.version.number()},
               {"from_manifest_sha256", receipt.origin.manifest.Hex()},
               {"created", receipt.created},
               {"model_digest", receipt.model.Hex()},
               {"layout_digest", receipt.layout.Hex()}});
    return {};
  }
  fmt::print("run {} {} version 0, which is version {} of run {}\n", run,
             receipt.created ? "starts at" : "is there already, from", receipt.origin.version, receipt.origin.run);
  PrintFacts({{"model", receipt.model.Hex()}, {"layout", receipt.layout.Hex()}});
  return {};
}

}  // namespace

void AddFork(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("fork", "Start a run at a version of another: the way back to an older version",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Required("--run", args->run, "Name of the new run")
      .Required("--from", args->from, "Run that it starts from; it stays as it is")
      .Option("--version", args->version, "Version of that run (default: its newest)")
      .Option("--sign-key", args->sign_key, kSignKeyHelp)
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry fork /mnt/board --run grpo-2 --from grpo-1 --version 40");
}

}  // namespace skerry
