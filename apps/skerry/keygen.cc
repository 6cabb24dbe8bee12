#include "commands.h"
#include "skerry/base/key_file.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string output;
};

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const PrivateKey key, PrivateKey::Generate());
  SKERRY_TRY(WriteKeyPair(args.output, key));
  const std::string public_path = PublicKeyPath(args.output).string(), text = key.public_key().Text();
  if (common.json) {
    PrintJson({{"private_key_file", args.output},
               {"public_key_file", public_path},
               {"public_key", text},
               {"key_id", key.public_key().Id()}});
    return {};
  }
  PrintFacts({{"private", args.output + " (the publisher's alone: --sign-key)"},
              {"public", public_path + " (for every reader: --trust-key)"},
              {"as text", text},
              {"key id", key.public_key().Id()}});
  return {};
}

}  // namespace

void AddKeygen(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("keygen", "Make a key pair with which versions are signed",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Required("-o,--output", args->output, "Private key file; the public one gets .pub behind it. Never overwritten")
      .Example("skerry keygen -o /etc/skerry/trainer.key");
}

}  // namespace skerry
