#include "commands.h"
#include "skerry/apply/roll_back.h"
#include "skerry/base/clock.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string checkpoint, run;
  std::optional<uint64_t> to;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  const Stopwatch watch;
  const Path state_directory = DefaultStateDirectory(args.checkpoint);
  SKERRY_ASSIGN(const std::optional<CheckpointState> before, ReadState(state_directory));
  if (!before || !before->label.version) {
    return Fail(Code::kInvalid, "{} is not a checkpoint that skerry pull made", args.checkpoint);
  }
  const VersionLabel target{args.run.empty() ? before->label.run : args.run, Version(*args.to)};
  SKERRY_ASSIGN(const ApplyReceipt receipt, RollBackCheckpoint(args.checkpoint, target, {}, common.threads, *progress));
  SKERRY_ASSIGN(const std::optional<CheckpointState> after, ReadState(state_directory));
  if (!after) return Fail(Code::kCorrupt, "{} has lost its state", args.checkpoint);
  if (common.json) {
    PrintJson({{"run", target.run},
               {"version", target.version->number()},
               {"from", before->label.version->number()},
               {"changed", receipt.changed},
               {"model_digest", after->model.Hex()},
               {"seconds", {{"write", receipt.write_seconds + receipt.sync_seconds}, {"total", watch.Seconds()}}}});
    return {};
  }
  fmt::print("{} is at {}\n", args.checkpoint, target.Describe());
  PrintFacts({{"from", before->label.Describe()},
              {"changed", fmt::format("{} elements", receipt.changed)},
              {"model", after->model.Hex() + " (verified)"},
              {"time", fmt::format("{:.2f} s", watch.Seconds())}});
  return {};
}

}  // namespace

void AddRollback(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("rollback", "Take a pulled checkpoint back to a version that pull --undo has kept the way to",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("CKPT", args->checkpoint, "Checkpoint directory")
      .Option("--to", args->to, "Version to go back to; after a rollback also forward to where it was")
      .Option("--run", args->run, "Name of the version's run (default: that of the version that is there)")
      .Check([args] { return args->to && *args->to <= Version::kMax ? "" : "name a version with --to"; })
      .Example("skerry rollback /island/ckpt --to 41");
}

}  // namespace skerry
