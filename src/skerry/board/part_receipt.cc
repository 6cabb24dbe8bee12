#include "skerry/board/part_receipt.h"

#include <nlohmann/json.hpp>

#include "skerry/board/manifest.h"
#include "skerry/board/references_json.h"

namespace skerry {
namespace {

using nlohmann::json;

// 32 hexadecimal digits a tensor: the 16 bytes of its digest, little-endian, lane a first.
std::string HexOf(const std::vector<RunningDigest>& digests) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const RunningDigest& digest : digests) {
    writer.Int<uint64_t>(digest.a);
    writer.Int<uint64_t>(digest.b);
  }
  return ToHex(bytes);
}

std::vector<RunningDigest> ReadDigests(JsonFields& fields, std::string_view name) {
  std::vector<RunningDigest> digests;
  const auto bytes = FromHex(fields.Text(name, kMaxPartReceiptBytes));
  if (!bytes || bytes->size() % 16 != 0) {
    fields.Refuse(Code::kCorrupt, fmt::format("{}.{} is not 32 hexadecimal digits a tensor", fields.where(), name));
    return digests;
  }
  for (size_t at = 0; at < bytes->size(); at += 16) {
    digests.push_back({.a = LoadLe<uint64_t>(bytes->data() + at), .b = LoadLe<uint64_t>(bytes->data() + at + 8)});
  }
  return digests;
}

}  // namespace

Result<Bytes> SerializePartReceipt(const PartReceipt& receipt) {
  json document = {{"format", PartReceipt::kFormat},
                   {"run", receipt.run.str()},
                   {"version", receipt.version.number()},
                   {"base", receipt.base.Hex()},
                   {"index", receipt.index},
                   {"of", receipt.of},
                   {"objects", ToJson(std::vector<PatchPart>{receipt.part})},
                   {"base_digests", HexOf(receipt.base_digests)},
                   {"target_digests", HexOf(receipt.target_digests)},
                   {"changed", receipt.changed},
                   {"tensors_changed", receipt.tensors_changed},
                   {"side_files_changed", receipt.side_files_changed}};
  for (const PartReceipt::Skip& skip : receipt.skips) {
    document["skips"].push_back({{"from", skip.from.number()}, {"object", ToJson(skip.object)}});
  }
  SKERRY_ASSIGN(Bytes bytes, DumpJson(document, "receipt"));
  if (const Result<PartReceipt> again = ParsePartReceipt(bytes); !again) {
    return Fail(Code::kInvalid, "can't write this receipt: {}", again.error().message);
  }
  return bytes;
}

Result<PartReceipt> ParsePartReceipt(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxPartReceiptBytes, "receipt"));
  std::optional<Error> error;
  JsonFields fields(document, "receipt", error);
  fields.CheckFormat(PartReceipt::kFormat);
  PartReceipt receipt;
  receipt.run = fields.Run("run");
  receipt.version = fields.VersionNumber("version");
  receipt.base = fields.Sha256("base");
  receipt.of = fields.Unsigned("of", kMaxWriters);
  receipt.index = fields.Unsigned("index", kMaxWriters);
  if (receipt.index >= receipt.of) {
    fields.Refuse(Code::kCorrupt, fmt::format("receipt is of part {} of {}", receipt.index, receipt.of));
  }
  const std::vector<PatchPart> parts = ReadPatchParts(fields);
  if (parts.size() == 1) {
    receipt.part = parts[0];
  } else {
    fields.Refuse(Code::kCorrupt, fmt::format("receipt.objects has {} parts, not one", parts.size()));
  }
  receipt.base_digests = ReadDigests(fields, "base_digests");
  receipt.target_digests = ReadDigests(fields, "target_digests");
  receipt.changed = fields.Unsigned("changed");
  receipt.tensors_changed = fields.Unsigned("tensors_changed");
  receipt.side_files_changed = fields.Unsigned("side_files_changed");
  if (fields.Has("skips")) {
    for (JsonFields& skip : fields.Objects("skips", kMaxManifestEdges)) {
      receipt.skips.push_back({.from = skip.VersionNumber("from"), .object = ReadObjectRef(skip.Object("object"))});
    }
  }
  if (receipt.base_digests.size() != receipt.target_digests.size()) {
    fields.Refuse(Code::kCorrupt, fmt::format("receipt has {} digests of the base and {} of the target",
                                              receipt.base_digests.size(), receipt.target_digests.size()));
  }
  SKERRY_TRY(fields.status());
  return receipt;
}

}  // namespace skerry
