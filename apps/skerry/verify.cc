#include "commands.h"
#include "skerry/apply/settled_checkpoint.h"
#include "skerry/apply/state.h"
#include "skerry/base/text.h"
#include "skerry/tensors/checkpoint.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string checkpoint, digest;
  bool tensors = false;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  std::optional<Digest> expected;
  std::string expected_by = "--digest";
  if (!args.digest.empty()) {
    auto digest = Digest::FromHex(args.digest);
    if (!digest) return Fail(Code::kInvalid, "--digest: {}", digest.error().message);
    expected = *digest;
  }
  const auto progress = MakeProgress(common);
  SKERRY_ASSIGN(const Checkpoint checkpoint, OpenSettledCheckpoint(args.checkpoint));
  SKERRY_ASSIGN(const std::optional<CheckpointState> state, ReadState(DefaultStateDirectory(args.checkpoint)));
  SKERRY_ASSIGN(const std::vector<RunningDigest> digests, DigestTensors(checkpoint, common.threads, *progress));
  const Layout& layout = checkpoint.layout();
  const Digest model = ModelDigest(layout.tensors_digest(), digests);

  if (!expected && state) {
    expected = state->model;
    expected_by = state->label.Describe();
    for (size_t i = 0; i < digests.size() && state->tensors.size() == digests.size(); ++i) {
      if (digests[i] != state->tensors[i]) {
        return Fail(Code::kCorrupt, "{}: tensor '{}' is not what {} says: its bytes were changed", args.checkpoint,
                    layout.tensors()[i].name, expected_by);
      }
    }
  }
  if (expected && *expected != model) {
    return Fail(Code::kCorrupt, "{}: model digest is {}, but {} says {}", args.checkpoint, model.Hex(), expected_by,
                expected->Hex());
  }
  if (common.json) {
    nlohmann::ordered_json json = {{"checkpoint", args.checkpoint},          {"model_digest", model.Hex()},
                                   {"layout_digest", layout.digest().Hex()}, {"tensors", layout.tensors().size()},
                                   {"files", layout.files().size()},         {"bytes", layout.total_bytes()},
                                   {"verified", expected.has_value()}};
    if (args.tensors) {
      json["tensor_digests"] = nlohmann::ordered_json::object();
      for (size_t i = 0; i < digests.size(); ++i) {
        json["tensor_digests"][layout.tensors()[i].name] = fmt::format("{:016x}{:016x}", digests[i].a, digests[i].b);
      }
    }
    PrintJson(json);
    return {};
  }
  for (const std::string& warning : checkpoint.warnings()) PrintWarning(warning);
  PrintFacts({{"model", model.Hex()},
              {"layout", layout.digest().Hex()},
              {"tensors", fmt::format("{} in {} files, {}", layout.tensors().size(), layout.files().size(),
                                      HumanBytes(layout.total_bytes()))},
              {"verified", expected ? "equal to what " + expected_by + " says" : "nothing to compare with"}});
  if (args.tensors) {
    for (size_t i = 0; i < digests.size(); ++i) {
      fmt::print("{:016x}{:016x}  {}\n", digests[i].a, digests[i].b, Printable(layout.tensors()[i].name));
    }
  }
  return {};
}

}  // namespace

void AddVerify(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("verify", "Read a whole checkpoint and print, or check, its digests",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("CKPT", args->checkpoint, "Checkpoint directory")
      .Option("--digest", args->digest,
              "Model digest that it must have (default: the one that its own .skerry/state.json says)")
      .Flag("--tensors", args->tensors, "Print each tensor's running digest")
      .Example("skerry verify /island/ckpt");
}

}  // namespace skerry
