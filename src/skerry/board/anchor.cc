#include "skerry/board/anchor.h"

#include <nlohmann/json.hpp>
#include <set>

#include "skerry/board/references_json.h"

namespace skerry {

using nlohmann::json;

uint64_t Anchor::bytes() const {
  uint64_t sum = 0;
  for (const AnchorFile& file : files) sum += file.object.size;
  for (const PatchPart& part : parts) sum += part.object.size;
  return sum;
}

Result<Bytes> SerializeAnchor(const Anchor& anchor) {
  json files = json::array();
  for (const AnchorFile& file : anchor.files) files.push_back({{"path", file.path}, {"object", ToJson(file.object)}});
  json document = {{"format", Anchor::kFormat},
                   {"run", anchor.run.str()},
                   {"version", anchor.version.number()},
                   {"model", anchor.model.Hex()},
                   {"files", std::move(files)}};
  if (!anchor.parts.empty()) document["objects"] = ToJson(anchor.parts);
  SKERRY_ASSIGN(Bytes bytes, DumpJson(document, "anchor"));
  if (const Result<Anchor> again = ParseAnchor(bytes); !again) {
    return Fail(Code::kInvalid, "can't write this anchor: {}", again.error().message);
  }
  return bytes;
}

Result<Anchor> ParseAnchor(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxAnchorBytes, "anchor"));
  std::optional<Error> error;
  JsonFields fields(document, "anchor", error);
  fields.CheckFormat(Anchor::kFormat);
  Anchor anchor;
  anchor.run = fields.Run("run");
  anchor.version = fields.VersionNumber("version");
  anchor.model = fields.Sha256("model");
  std::set<std::string> seen;
  for (JsonFields& file : fields.Objects("files", kMaxAnchorFiles)) {
    anchor.files.push_back({.path = ReadCheckpointPath(file, seen), .object = ReadObjectRef(file.Object("object"))});
  }
  if (fields.Has("objects")) anchor.parts = ReadPatchParts(fields);
  if (!anchor.parts.empty() && anchor.parts.front().boxed) {
    fields.Refuse(Code::kUnsupported, "anchor has parts that are boxes");
  }
  if (anchor.files.empty() && anchor.parts.empty()) fields.Refuse(Code::kCorrupt, "anchor has neither files nor parts");
  SKERRY_TRY(fields.status());
  return anchor;
}

}  // namespace skerry
