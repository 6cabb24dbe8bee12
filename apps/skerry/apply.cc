#include "commands.h"
#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/rebuild.h"
#include "skerry/apply/settled_checkpoint.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string base, patch, output, state;
  bool in_place = false;
};

void Print(const Arguments& args, const CommonOptions& common, const Patch& patch, const std::string& where,
           const std::vector<std::pair<std::string, double>>& seconds) {
  const PatchInfo& info = patch.info();
  if (common.json) {
    nlohmann::ordered_json json = {{"checkpoint", where},
                                   {"patch", args.patch},
                                   {"changed", info.changed},
                                   {"model_digest", info.target_model.Hex()},
                                   {"in_place", args.in_place}};
    for (const auto& [stage, value] : seconds) json["seconds"][stage] = value;
    PrintJson(json);
    return;
  }
  std::string stages;
  for (const auto& [stage, value] : seconds)
    stages += fmt::format("{}{} {:.3f} s", stages.empty() ? "" : ", ", stage, value);
  PrintFacts({{"checkpoint", where},
              {"changed", fmt::format("{} of {} elements", Grouped(info.changed), Grouped(info.units))},
              {"model", info.target_model.Hex() + " (verified)"},
              {"time", stages}});
}

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  SKERRY_ASSIGN(const Patch patch, Patch::Open(args.patch));
  if (!args.in_place) {
    SKERRY_ASSIGN(const Checkpoint base, OpenSettledCheckpoint(args.base));
    SKERRY_ASSIGN(const RebuildReceipt receipt, RebuildCheckpoint(base, {}, patch, args.output, {},
                                                                  /*write_state=*/false, common.threads, *progress));
    if (base.layout().digest() != patch.info().base_layout && !patch.head().layout) {
      PrintWarning(args.base +
                   " holds the same tensors in other files than the patch's base: the result keeps its files");
    }
    Print(args, common, patch, args.output,
          {{"verify", receipt.verify_seconds}, {"copy", receipt.copy_seconds}, {"apply", receipt.apply_seconds}});
    return {};
  }
  const Path state = args.state.empty() ? DefaultStateDirectory(args.base) : Path(args.state);
  SKERRY_ASSIGN(CanonicalCheckpoint canonical, CanonicalCheckpoint::Open(args.base, state, common.threads, *progress));
  SKERRY_ASSIGN(const ApplyReceipt receipt, canonical.Apply(patch, {}, common.threads, *progress));
  Print(args, common, patch, args.base,
        {{"decode", receipt.decode_seconds},
         {"journal", receipt.journal_seconds},
         {"write", receipt.write_seconds},
         {"sync", receipt.sync_seconds}});
  return {};
}

}  // namespace

void AddApply(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("apply", "Rebuild a checkpoint from its base and a patch",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BASE", args->base, "Checkpoint directory that the patch was made for")
      .Positional("PATCH", args->patch, "Patch file")
      .Option("-o,--output", args->output, "New checkpoint directory to make")
      .Flag("--in-place", args->in_place, "Change BASE itself; a kill at any time leaves the old or the new version")
      .Option("--state", args->state, "With --in-place: where lock, journal and state are kept (default BASE/.skerry)")
      .Check([args] {
        return args->in_place == args->output.empty()
                   ? ""
                   : "give either -o NEW for a new directory, or --in-place to change BASE itself";
      })
      .Example("skerry apply ckpt/step-100 step-101.skerry -o ckpt/step-101");
}

}  // namespace skerry
