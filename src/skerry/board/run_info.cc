#include "skerry/board/run_info.h"

#include <nlohmann/json.hpp>

#include "skerry/board/json_fields.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxBaseSize = 4096;

ForkPoint ReadForkPoint(JsonFields fields) {
  return {.run = fields.Run("run"), .version = fields.VersionNumber("version"), .manifest = fields.Sha256("manifest")};
}

}  // namespace

Result<Bytes> SerializeBoardInfo(const BoardInfo& info) {
  SKERRY_ASSIGN(Bytes bytes, DumpJson({{"format", BoardInfo::kFormat}, {"id", info.id}}, "board.json"));
  if (const Result<BoardInfo> again = ParseBoardInfo(bytes); !again) {
    return Fail(Code::kInvalid, "can't describe this board: {}", again.error().message);
  }
  return bytes;
}

Result<BoardInfo> ParseBoardInfo(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxInfoBytes, "board.json"));
  std::optional<Error> error;
  JsonFields fields(document, "board.json", error);
  fields.CheckFormat(BoardInfo::kFormat);
  BoardInfo info{.id = fields.Token("id")};
  SKERRY_TRY(fields.status());
  return info;
}

Result<Bytes> SerializeRunInfo(const RunInfo& info) {
  json out = {{"format", RunInfo::kFormat},
              {"run", info.run.str()},
              {"base", info.base},
              {"parent", nullptr},
              {"layout", info.layout.Hex()}};
  if (info.parent) {
    out["parent"] = {{"run", info.parent->run.str()},
                     {"version", info.parent->version.number()},
                     {"manifest", info.parent->manifest.Hex()}};
  }
  SKERRY_ASSIGN(Bytes bytes, DumpJson(out, "run.json"));
  if (const Result<RunInfo> again = ParseRunInfo(bytes); !again) {
    return Fail(Code::kInvalid, "can't describe this run: {}", again.error().message);
  }
  return bytes;
}

Result<RunInfo> ParseRunInfo(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxInfoBytes, "run.json"));
  std::optional<Error> error;
  JsonFields fields(document, "run.json", error);
  fields.CheckFormat(RunInfo::kFormat);
  RunInfo info;
  info.run = fields.Run("run");
  info.base = fields.Text("base", kMaxBaseSize);
  if (fields.Has("parent")) info.parent = ReadForkPoint(fields.Object("parent"));
  info.layout = fields.Sha256("layout");
  SKERRY_TRY(fields.status());
  return info;
}

}  // namespace skerry
