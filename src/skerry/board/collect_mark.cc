#include "skerry/board/collect_mark.h"

#include <nlohmann/json.hpp>

#include "skerry/board/json_fields.h"
#include "skerry/board/keys.h"

namespace skerry {

using nlohmann::json;

Result<Bytes> SerializeCollectMark(const CollectMark& mark) {
  json condemned = json::array();
  for (const auto& [key, since] : mark.condemned) condemned.push_back({{"key", key}, {"since", since}});
  const json out = {{"format", CollectMark::kFormat}, {"run", mark.run.str()}, {"condemned", std::move(condemned)}};
  SKERRY_ASSIGN(Bytes bytes, DumpJson(out, "gc.json"));
  if (const Result<CollectMark> again = ParseCollectMark(bytes); !again) {
    return Fail(Code::kInvalid, "can't write this gc.json: {}", again.error().message);
  }
  return bytes;
}

Result<CollectMark> ParseCollectMark(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxCollectMarkBytes, "gc.json"));
  std::optional<Error> error;
  JsonFields fields(document, "gc.json", error);
  fields.CheckFormat(CollectMark::kFormat);
  CollectMark mark;
  mark.run = fields.Run("run");
  for (JsonFields& entry : fields.Objects("condemned", kMaxCondemned)) {
    std::string key = entry.Text("key", kMaxKeySize);
    entry.RefuseUnless(ValidateKey(key), "key");
    if (!mark.condemned.emplace(std::move(key), entry.Unsigned("since", INT64_MAX)).second) {
      entry.Refuse(Code::kCorrupt, entry.where() + ".key is there twice");
    }
  }
  SKERRY_TRY(fields.status());
  return mark;
}

Result<CollectMarkAt> ReadCollectMark(const Board& board, const RunId& run) {
  const Result<Object> object = board.store().Get(CollectMarkKey(run), kMaxCollectMarkBytes);
  if (!object && object.error().code == Code::kNotFound)
    return CollectMarkAt{.mark = {.run = run, .condemned = {}}, .generation = {}};
  SKERRY_TRY(object);
  Result<CollectMark> mark = ParseCollectMark(object->bytes);
  if (!mark && mark.error().code == Code::kUnsupported) return Annotate(mark.error(), CollectMarkKey(run));
  if (!mark || mark->run != run) mark = CollectMark{.run = run, .condemned = {}};
  return CollectMarkAt{.mark = *std::move(mark), .generation = object->generation};
}

}  // namespace skerry
