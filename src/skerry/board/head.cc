#include "skerry/board/head.h"

#include <nlohmann/json.hpp>

#include "skerry/board/json_fields.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxTextSize = 256;

}  // namespace

Result<Bytes> SerializeHead(const Head& head) {
  const json out = {{"format", Head::kFormat},
                    {"run", head.run.str()},
                    {"epoch", head.epoch},
                    {"version", head.version.number()},
                    {"manifest", {{"key", head.manifest.key}, {"sha256", head.manifest.sha256.Hex()}}},
                    {"model", head.model.Hex()},
                    {"publisher", head.publisher},
                    {"nonce", head.nonce},
                    {"sequence", head.sequence},
                    {"time", head.time}};
  SKERRY_ASSIGN(Bytes bytes, DumpJson(out, "head"));
  if (const Result<Head> again = ParseHead(bytes); !again) {
    return Fail(Code::kInvalid, "can't write this head: {}", again.error().message);
  }
  return bytes;
}

Result<Head> ParseHead(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxHeadBytes, "head"));
  std::optional<Error> error;
  JsonFields fields(document, "head", error);
  fields.CheckFormat(Head::kFormat);

  Head head;
  head.run = fields.Run("run");
  head.epoch = fields.Unsigned("epoch");
  head.version = fields.VersionNumber("version");
  JsonFields manifest = fields.Object("manifest");
  head.manifest.key = manifest.Text("key", kMaxKeySize);
  manifest.RefuseUnless(ValidateKey(head.manifest.key), "key");
  head.manifest.sha256 = manifest.Sha256("sha256");
  head.model = fields.Sha256("model");
  head.publisher = fields.Token("publisher");
  head.nonce = fields.Token("nonce");
  head.sequence = fields.Unsigned("sequence");
  head.time = fields.Text("time", kMaxTextSize);
  if (head.epoch == 0 || head.sequence == 0) {
    fields.Refuse(Code::kCorrupt,
                  fmt::format("head.epoch is {} and head.sequence is {}: both begin at 1", head.epoch, head.sequence));
  }
  SKERRY_TRY(fields.status());
  return head;
}

}  // namespace skerry
