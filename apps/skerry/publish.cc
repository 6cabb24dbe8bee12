#include "commands.h"
#include "open_board.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/publish/publisher.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, checkpoint, state, level = "compact", sign_key;
  std::vector<std::string> trust_keys;
  std::optional<uint64_t> version, step;
  bool allow_empty = false;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  const Stopwatch watch;
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  SKERRY_ASSIGN(Board board, OpenBoard(args.board, args.trust_keys));
  SKERRY_TRY(SignVersions(board, args.sign_key));
  SKERRY_ASSIGN(const Checkpoint checkpoint, OpenSettledCheckpoint(args.checkpoint));
  PublishOptions options{.state_directory = args.state,
                         .allow_empty = args.allow_empty,
                         .level = *LevelFromName(args.level),
                         .threads = common.threads};
  if (args.state.empty()) {
    SKERRY_ASSIGN(options.state_directory, DefaultPublisherState(board, run));
  }
  if (args.version) options.version = Version(*args.version);
  if (args.step) options.step = static_cast<int64_t>(*args.step);
  SKERRY_ASSIGN(const PublishReceipt receipt, Publish(board, run, checkpoint, options, Clock::System(), *progress));
  for (const std::string& warning : checkpoint.warnings()) PrintWarning(warning);
  if (!receipt.warning.empty()) PrintWarning(receipt.warning);

  const double density =
      receipt.elements == 0 ? 0 : static_cast<double>(receipt.changed) / static_cast<double>(receipt.elements);
  const double times_smaller = receipt.patch_bytes == 0 ? 0
                                                        : static_cast<double>(receipt.checkpoint_bytes) /
                                                              static_cast<double>(receipt.patch_bytes);
  const double per_change =
      receipt.changed == 0 ? 0 : static_cast<double>(receipt.patch_bytes) / static_cast<double>(receipt.changed);
  if (common.json) {
    nlohmann::ordered_json json = {{"run", run.str()},
                                   {"version", receipt.version.number()},
                                   {"published", receipt.published},
                                   {"step", nullptr},
                                   {"model_digest", receipt.model.Hex()},
                                   {"elements", receipt.elements},
                                   {"changed", receipt.changed},
                                   {"tensors_changed", receipt.tensors_changed},
                                   {"density", density},
                                   {"patch_bytes", receipt.patch_bytes},
                                   {"bytes_per_changed", nullptr},
                                   {"checkpoint_bytes", receipt.checkpoint_bytes},
                                   {"times_smaller", times_smaller},
                                   {"seconds",
                                    {{"snapshot", receipt.snapshot_seconds},
                                     {"diff", receipt.diff_seconds},
                                     {"encode", receipt.encode_seconds},
                                     {"publish", receipt.publish_seconds},
                                     {"advance", receipt.advance_seconds},
                                     {"total", watch.Seconds()}}}};
    if (receipt.step) json["step"] = *receipt.step;
    if (receipt.changed > 0) json["bytes_per_changed"] = per_change;
    PrintJson(json);
    return {};
  }
  if (!receipt.published) {
    fmt::print("run {} version {} is this checkpoint already: nothing to publish{}\n", run, receipt.version,
               args.version ? "" : " (--allow-empty makes a version all the same)");
    return {};
  }
  fmt::print("run {} version {}: {}, {:.0f} times smaller than the checkpoint\n", run, receipt.version,
             HumanBytes(receipt.patch_bytes), times_smaller);
  PrintFacts({{"changed", fmt::format("{} of {} elements ({})", Grouped(receipt.changed), Grouped(receipt.elements),
                                      Percent(density))},
              {"a change", receipt.changed == 0 ? "-" : fmt::format("{:.3f} bytes", per_change)},
              {"model", receipt.model.Hex()},
              {"time", fmt::format("snapshot {:.2f} s, diff {:.2f}, encode {:.2f}, publish {:.2f}, advance {:.2f}",
                                   receipt.snapshot_seconds, receipt.diff_seconds, receipt.encode_seconds,
                                   receipt.publish_seconds, receipt.advance_seconds)}});
  return {};
}

}  // namespace

void AddPublish(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("publish", "Publish a checkpoint as the next version of a run",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Positional("CKPT", args->checkpoint, "Checkpoint directory, as the engines shall serve it")
      .Required("--run", args->run, "Name of the run")
      .Option("--step", args->step, "The trainer's step, kept as metadata")
      .Option("--version", args->version,
              "Publish as exactly this version; again with the same bytes is a no-op, with others a conflict")
      .Choice("--level", args->level, {"compact", "fast"}, kLevelHelp)
      .Flag("--allow-empty", args->allow_empty, "Make a version even when nothing changed since the head")
      .Option("--state", args->state,
              "Snapshot of the last published version and spool (default: below the user's cache folder)")
      .Option("--sign-key", args->sign_key, kSignKeyHelp)
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry publish /mnt/board --run grpo-1 /ckpt/step-400 --step 400");
}

}  // namespace skerry
