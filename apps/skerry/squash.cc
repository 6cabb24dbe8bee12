#include "commands.h"
#include "patch_report.h"
#include "skerry/apply/patch_algebra.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/patch/file_sink.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::vector<std::string> patches;
  std::string base, output, level = "compact";
};

Status Run(const Arguments& args, const CommonOptions& common) {
  const auto progress = MakeProgress(common);
  SKERRY_ASSIGN(const Checkpoint base, OpenSettledCheckpoint(args.base));
  std::vector<Patch> patches;
  for (const std::string& path : args.patches) {
    SKERRY_ASSIGN(Patch patch, Patch::Open(path));
    patches.push_back(std::move(patch));
  }
  std::vector<const Patch*> chain;
  for (const Patch& patch : patches) chain.push_back(&patch);
  SKERRY_ASSIGN(FileSink sink, FileSink::Create(args.output));
  const EncodeOptions options{.threads = common.threads, .level = *LevelFromName(args.level)};
  SKERRY_ASSIGN(const EncodeReceipt receipt, SquashPatches(base, {}, chain, options, sink, *progress));
  SKERRY_TRY(sink.Commit());
  PrintPatchReport(common, args.output, args.level, receipt);
  return {};
}

}  // namespace

void AddSquash(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("squash", "Make one patch of several that follow each other",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("PATCHES", args->patches, "Patch files, oldest first")
      .Required("--base", args->base, "Checkpoint directory that the first patch was made for")
      .Required("-o,--output", args->output, "Patch file to write")
      .Choice("--level", args->level, {"compact", "fast"}, kLevelHelp)
      .Example("skerry squash step-101.skerry step-102.skerry --base ckpt/step-100 -o steps-101-102.skerry");
}

}  // namespace skerry
