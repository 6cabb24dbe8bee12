#include "skerry/board/run_info.h"

#include <nlohmann/json.hpp>

#include "skerry/board/references_json.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxBaseSize = 4096;

}  // namespace

Result<Bytes> SerializeBoardInfo(const BoardInfo& info) {
  json out = {{"format", BoardInfo::kFormat}, {"id", info.id}};
  if (info.writes) out["writes"] = NameOf(*info.writes);
  SKERRY_ASSIGN(Bytes bytes, DumpJson(out, "board.json"));
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
  if (fields.Has("writes")) {
    const std::string name = fields.Token("writes");
    info.writes = WriteSafetyFromName(name);
    if (!info.writes) fields.Refuse(Code::kCorrupt, fmt::format("writes is '{}', which is no verdict", name));
  }
  SKERRY_TRY(fields.status());
  return info;
}

Result<Bytes> SerializeRunInfo(const RunInfo& info) {
  json out = {{"format", RunInfo::kFormat},
              {"run", info.run.str()},
              {"base", info.base},
              {"parent", nullptr},
              {"layout", info.layout.Hex()}};
  if (info.parent) out["parent"] = ToJson(*info.parent);
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
