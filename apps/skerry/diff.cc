#include "commands.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/patch/encoder.h"
#include "skerry/patch/file_sink.h"
#include "skerry/patch/side_files.h"
#include "skerry/tensors/checkpoint.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string base, target, output;
  bool structural = false;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  SKERRY_ASSIGN(const Checkpoint base, OpenSettledCheckpoint(args.base));
  SKERRY_ASSIGN(const Checkpoint target, OpenSettledCheckpoint(args.target));
  for (const Checkpoint* checkpoint : {&base, &target}) {
    for (const std::string& warning : checkpoint->warnings()) {
      PrintWarning(checkpoint->directory().string() + ": " + warning);
    }
  }
  SKERRY_ASSIGN(std::vector<SideFileChange> side_files, CompareSideFiles(base, target));
  const size_t side_files_changed = side_files.size();
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(args.output));
  const EncodeOptions options{.threads = common.threads, .allow_structural = args.structural};
  SKERRY_ASSIGN(const EncodeReceipt receipt,
                EncodePatch(base, target, std::move(side_files), options, sink, *progress));
  SKERRY_TRY(sink.Commit());

  const PatchInfo& info = receipt.info;
  const auto per_change = [&] { return static_cast<double>(receipt.patch_bytes) / static_cast<double>(info.changed); };
  const double density = info.units == 0 ? 0 : static_cast<double>(info.changed) / static_cast<double>(info.units);
  const uint64_t full = target.layout().total_bytes();
  if (common.json) {
    nlohmann::ordered_json json = {
        {"patch", args.output},
        {"base_model", info.base_model.Hex()},
        {"target_model", info.target_model.Hex()},
        {"elements", info.units},
        {"changed", info.changed},
        {"density", density},
        {"tensors_changed", receipt.tensors_changed},
        {"side_files_changed", side_files_changed},
        {"patch_bytes", receipt.patch_bytes},
        {"checkpoint_bytes", full},
        {"seconds", {{"compare", receipt.compare_seconds}, {"encode", receipt.encode_seconds}}}};
    if (info.changed > 0) json["bytes_per_changed"] = per_change();
    PrintJson(json);
    return {};
  }
  fmt::print("{}: {}{}\n", args.output, HumanBytes(receipt.patch_bytes),
             full == 0 ? ""
                       : fmt::format(", {:.0f} times smaller than the checkpoint",
                                     static_cast<double>(full) / static_cast<double>(receipt.patch_bytes)));
  PrintFacts(
      {{"changed", fmt::format("{} of {} elements ({}) in {} of {} tensors", Grouped(info.changed), Grouped(info.units),
                               Percent(density), receipt.tensors_changed, target.layout().tensors().size())},
       {"a change", info.changed == 0 ? "-" : fmt::format("{:.3f} bytes", per_change())},
       {"side files", fmt::format("{} changed", side_files_changed)},
       {"base model", info.base_model.Hex()},
       {"target model", info.target_model.Hex()}});
  return {};
}

}  // namespace

void AddDiff(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("diff", "Write what changed between two checkpoints as a patch",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BASE", args->base, "Checkpoint directory that receivers have")
      .Positional("NEW", args->target, "Checkpoint directory that they shall have")
      .Required("-o,--output", args->output, "Patch file to write")
      .Flag("--structural", args->structural,
            "Accept added and removed tensors and changed dtypes and shapes; such tensors travel whole")
      .Example("skerry diff ckpt/step-100 ckpt/step-101 -o step-101.skerry");
}

}  // namespace skerry
