#include "skerry/board/head.h"

#include <nlohmann/json.hpp>

#include "skerry/board/json_fields.h"
#include "skerry/board/keys.h"
#include "skerry/board/references_json.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxTextSize = 256;

json ToJson(const ManifestRef& manifest) { return {{"key", manifest.key}, {"sha256", manifest.sha256.Hex()}}; }

ManifestRef ReadManifestRef(JsonFields fields) {
  ManifestRef manifest;
  manifest.key = fields.Text("key", kMaxKeySize);
  fields.RefuseUnless(ValidateKey(manifest.key), "key");
  manifest.sha256 = fields.Sha256("sha256");
  return manifest;
}

std::vector<ViewHead> ReadViews(JsonFields& head, const RunId& run) {
  std::vector<ViewHead> views;
  for (JsonFields& fields : head.Objects("views", kMaxViews)) {
    views.push_back({.view = ReadViewName(fields, run, views.empty() ? "" : views.back().view),
                     .manifest = ReadManifestRef(fields.Object("manifest")),
                     .model = fields.Sha256("model")});
  }
  return views;
}

}  // namespace

Result<Head> Head::OfView(std::string_view view) const {
  if (view.empty()) return *this;
  std::vector<std::string> names;
  for (const ViewHead& one : views) {
    names.push_back(one.view);
    if (one.view != view) continue;
    Head head = *this;
    SKERRY_ASSIGN(head.run, run.View(view));
    head.manifest = one.manifest;
    head.model = one.model;
    head.views.clear();
    return head;
  }
  return Fail(Code::kNotFound, "run {} has no view '{}'; {}", run, view,
              names.empty() ? "it has only its own" : fmt::format("its views: {}", fmt::join(names, ", ")));
}

Result<Bytes> SerializeHead(const Head& head) {
  json out = {{"format", Head::kFormat},
              {"run", head.run.str()},
              {"epoch", head.epoch},
              {"version", head.version.number()},
              {"manifest", ToJson(head.manifest)},
              {"model", head.model.Hex()},
              {"publisher", head.publisher},
              {"nonce", head.nonce},
              {"sequence", head.sequence},
              {"time", head.time}};
  for (const ViewHead& view : head.views) {
    out["views"].push_back({{"view", view.view}, {"manifest", ToJson(view.manifest)}, {"model", view.model.Hex()}});
  }
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
  head.manifest = ReadManifestRef(fields.Object("manifest"));
  head.model = fields.Sha256("model");
  head.publisher = fields.Token("publisher");
  head.nonce = fields.Token("nonce");
  head.sequence = fields.Unsigned("sequence");
  head.time = fields.Text("time", kMaxTextSize);
  if (fields.Has("views")) head.views = ReadViews(fields, head.run);
  if (head.epoch == 0 || head.sequence == 0) {
    fields.Refuse(Code::kCorrupt,
                  fmt::format("head.epoch is {} and head.sequence is {}: both begin at 1", head.epoch, head.sequence));
  }
  SKERRY_TRY(fields.status());
  return head;
}

}  // namespace skerry
