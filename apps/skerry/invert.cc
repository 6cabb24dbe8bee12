#include "commands.h"
#include "patch_report.h"
#include "skerry/apply/patch_algebra.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/patch/file_sink.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string patch, base, output, level = "compact";
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  SKERRY_ASSIGN(const Checkpoint base, OpenSettledCheckpoint(args.base));
  SKERRY_ASSIGN(const Patch patch, Patch::Open(args.patch));
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(args.output));
  const EncodeOptions options{.threads = common.threads, .level = *LevelFromName(args.level)};
  SKERRY_ASSIGN(const EncodeReceipt receipt, InvertPatch(base, {}, patch, options, sink, *progress));
  SKERRY_TRY(sink.Commit());
  PrintPatchReport(common, args.output, args.level, receipt);
  return {};
}

}  // namespace

void AddInvert(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("invert", "Turn a patch round: it leads from the new version back to its base",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("PATCH", args->patch, "Patch file")
      .Required("--base", args->base, "Checkpoint directory that the patch was made for")
      .Required("-o,--output", args->output, "Patch file to write")
      .Choice("--level", args->level, {"compact", "fast"}, kLevelHelp)
      .Example("skerry invert step-101.skerry --base ckpt/step-100 -o back-to-100.skerry");
}

}  // namespace skerry
