#include "commands.h"
#include "patch_report.h"
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
  std::string level = "compact";
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
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(args.output));
  const EncodeOptions options{
      .threads = common.threads, .level = *LevelFromName(args.level), .allow_structural = args.structural};
  SKERRY_ASSIGN(const EncodeReceipt receipt,
                EncodePatch(base, target, std::move(side_files), options, sink, *progress));
  SKERRY_TRY(sink.Commit());

  PrintPatchReport(common, args.output, args.level, receipt);
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
      .Choice("--level", args->level, {"compact", "fast"}, kLevelHelp)
      .Flag("--structural", args->structural,
            "Accept added and removed tensors and changed dtypes and shapes; such tensors travel whole")
      .Example("skerry diff ckpt/step-100 ckpt/step-101 -o step-101.skerry");
}

}  // namespace skerry
