#include "commands.h"
#include "known_boards.h"
#include "open_board.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/publish/publisher.h"
#include "terminal.h"
#include "views.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board, run, checkpoint, state, level = "compact", sign_key, writer, attempt;
  std::vector<std::string> trust_keys, views;
  std::optional<uint64_t> version, step, parts, anchor_tail, wait;
  bool allow_empty = false, take_over = false;
};

// "2/8"
std::optional<WriterOfMany> ParseWriter(const std::string& text) {
  const size_t slash = text.find('/');
  const auto number = [](const std::string& digits) -> std::optional<uint64_t> {
    if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos) return {};
    return std::stoull(digits);
  };
  if (slash == std::string::npos) return std::nullopt;
  const auto index = number(text.substr(0, slash)), of = number(text.substr(slash + 1));
  if (!index || !of || *index >= *of || *of > kMaxWriters) return std::nullopt;
  return WriterOfMany{.index = *index, .of = *of, .attempt = {}};
}

// What is wrong with the options together.
std::string Wrong(const Arguments& args) {
  if (args.writer.empty() != args.attempt.empty()) return "--writer and --attempt go together";
  if (!args.writer.empty() && !ParseWriter(args.writer)) {
    return "--writer is " + args.writer + ", not K/N with K from 0 to N - 1";
  }
  if (args.anchor_tail && *args.anchor_tail > 1000) return "--anchor-tail is a percentage of up to 1000";
  return "";
}

double DensityOf(const PublishReceipt& receipt) {
  return receipt.elements == 0 ? 0 : static_cast<double>(receipt.changed) / static_cast<double>(receipt.elements);
}

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  const Stopwatch watch;
  SKERRY_ASSIGN(const RunId run, RunId::Parse(args.run));
  const KnownBoard known(args.board);
  SKERRY_ASSIGN(Board board, known.Open());
  SKERRY_TRY(TrustKeys(board, args.trust_keys));
  SKERRY_TRY(SignVersions(board, args.sign_key));
  SKERRY_ASSIGN(const Checkpoint checkpoint, OpenSettledCheckpoint(args.checkpoint));
  SKERRY_ASSIGN(const GivenViews views, GivenViews::Open(args.views));
  PublishOptions options{.state_directory = args.state,
                         .allow_empty = args.allow_empty,
                         .take_over = args.take_over,
                         .level = *LevelFromName(args.level),
                         .threads = common.threads};
  if (args.state.empty()) {
    SKERRY_ASSIGN(options.state_directory, DefaultPublisherState(board, run));
  }
  if (args.version) options.version = Version(*args.version);
  if (args.step) options.step = static_cast<int64_t>(*args.step);
  if (args.parts) options.parts = *args.parts;
  if (args.anchor_tail) options.anchor_tail = static_cast<double>(*args.anchor_tail) / 100;
  options.writer = ParseWriter(args.writer);
  if (options.writer) {
    options.writer->attempt = args.attempt;
    options.writer->patience.limit = std::chrono::seconds(args.wait.value_or(600));
  }
  auto published = Publish(board, run, checkpoint, views.checkpoints(), options, Clock::System(), *progress);
  if (!published && published.error().code == Code::kConflict) known.Forget();
  SKERRY_ASSIGN(const PublishReceipt receipt, std::move(published));
  for (const std::string& warning : checkpoint.warnings()) PrintWarning(warning);
  if (!receipt.warning.empty()) PrintWarning(receipt.warning);

  const double density = DensityOf(receipt);
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
                                   {"parts", receipt.parts},
                                   {"skips", receipt.skips},
                                   {"skip_bytes", receipt.skip_bytes},
                                   {"anchor_bytes", receipt.anchor_bytes},
                                   {"checkpoint_bytes", receipt.checkpoint_bytes},
                                   {"views", nlohmann::ordered_json::object()},
                                   {"times_smaller", times_smaller},
                                   {"seconds",
                                    {{"snapshot", receipt.snapshot_seconds},
                                     {"diff", receipt.diff_seconds},
                                     {"encode", receipt.encode_seconds},
                                     {"publish", receipt.publish_seconds},
                                     {"advance", receipt.advance_seconds},
                                     {"anchor", receipt.anchor_seconds},
                                     {"total", watch.Seconds()}}}};
    for (const auto& [view, one] : receipt.views) {
      json["views"][view] = {{"model_digest", one.model.Hex()},
                             {"elements", one.elements},
                             {"changed", one.changed},
                             {"density", DensityOf(one)},
                             {"patch_bytes", one.patch_bytes},
                             {"shared_bytes", one.shared_bytes},
                             {"checkpoint_bytes", one.checkpoint_bytes},
                             {"skip_bytes", one.skip_bytes},
                             {"anchor_bytes", one.anchor_bytes}};
    }
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
  std::vector<std::pair<std::string, std::string>> also;
  if (receipt.skips > 0)
    also.emplace_back("skips", fmt::format("{}, {}", receipt.skips, HumanBytes(receipt.skip_bytes)));
  if (receipt.anchor_bytes > 0) {
    also.emplace_back("anchor", fmt::format("{}, {:.2f} s", HumanBytes(receipt.anchor_bytes), receipt.anchor_seconds));
  }
  PrintFacts({{"changed", fmt::format("{} of {} elements ({})", Grouped(receipt.changed), Grouped(receipt.elements),
                                      Percent(density))},
              {"a change", receipt.changed == 0 ? "-" : fmt::format("{:.3f} bytes", per_change)},
              {"model", receipt.model.Hex()},
              {"time", fmt::format("snapshot {:.2f} s, diff {:.2f}, encode {:.2f}, publish {:.2f}, advance {:.2f}",
                                   receipt.snapshot_seconds, receipt.diff_seconds, receipt.encode_seconds,
                                   receipt.publish_seconds, receipt.advance_seconds)}});
  for (const auto& [view, one] : receipt.views) {
    also.emplace_back("view " + view,
                      fmt::format("{}, {} of {} elements ({})", HumanBytes(one.patch_bytes), Grouped(one.changed),
                                  Grouped(one.elements), Percent(DensityOf(one))));
  }
  PrintFacts(also);
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
      .Option("--view", args->views, kViewsHelp)
      .Option("--step", args->step, "The trainer's step, kept as metadata")
      .Option("--version", args->version,
              "Publish as exactly this version; again with the same bytes is a no-op, with others a conflict")
      .Choice("--level", args->level, {"compact", "fast"}, kLevelHelp)
      .Flag("--allow-empty", args->allow_empty, "Make a version even when nothing changed since the head")
      .Option("--state", args->state,
              "Snapshot of the last published version and spool (default: below the user's cache folder)")
      .Flag("--take-over", args->take_over,
            "Go on although another publisher took the run over from this one (by its state directory)")
      .Option("--parts", args->parts, "Make and store the patch in this many parts (default: by size, 16 MiB each)")
      .Option("--anchor-tail", args->anchor_tail,
              "Write a full version when a late joiner would fetch this many percent of one in patches on top of it "
              "(default 6; 0: never)")
      .Option("--writer", args->writer,
              "K/N: this is writer K, from 0, of N that publish the version together, each from a --state of its own; "
              "writer 0 finishes")
      .Option("--attempt", args->attempt, "With --writer: a name that all writers share and that is never used again")
      .Option("--wait", args->wait, "With --writer: seconds to wait for the others (default 600)")
      .Check([args] { return Wrong(*args); })
      .Option("--sign-key", args->sign_key, kSignKeyHelp)
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry publish /mnt/board --run grpo-1 /ckpt/step-400 --step 400");
}

}  // namespace skerry
