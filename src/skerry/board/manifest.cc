#include "skerry/board/manifest.h"

#include <nlohmann/json.hpp>
#include <set>

#include "skerry/board/head.h"
#include "skerry/board/json_fields.h"
#include "skerry/board/references_json.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxTextSize = 256;

json ToJson(const Edge& edge) {
  return {{"kind", edge.kind},
          {"from", edge.from.number()},
          {"base_model", edge.base_model.Hex()},
          {"objects", ToJson(edge.parts)}};
}

json ToJson(const AnchorRef& anchor) {
  return {{"version", anchor.version.number()}, {"bytes", anchor.bytes}, {"object", ToJson(anchor.object)}};
}

json ToJson(const ManifestStats& stats) {
  return {{"elements", stats.elements},
          {"changed", stats.changed},
          {"tensors_changed", stats.tensors_changed},
          {"checkpoint_bytes", stats.checkpoint_bytes},
          {"patch_bytes", stats.patch_bytes}};
}

json ToJson(const ManifestSignature& signature) {
  return {{"key", signature.key.Text()}, {"value", signature.value.Hex()}};
}

json ToJson(const Manifest& manifest) {
  json out = {{"format", Manifest::kFormat},   {"features", manifest.features},
              {"run", manifest.run.str()},     {"version", manifest.version.number()},
              {"time", manifest.time},         {"layout", manifest.layout.Hex()},
              {"model", manifest.model.Hex()}, {"tensor_digests", ToJson(manifest.tensor_digests)},
              {"side_files", json::array()},   {"edges", json::array()},
              {"anchors", json::array()},      {"stats", ToJson(manifest.stats)}};
  if (manifest.parent) out["parent"] = manifest.parent->Hex();
  if (manifest.step) out["step"] = *manifest.step;
  if (manifest.fork) out["fork"] = ToJson(*manifest.fork);
  if (manifest.signature) out["signature"] = ToJson(*manifest.signature);
  for (const SideFile& file : manifest.side_files) {
    out["side_files"].push_back({{"path", file.path}, {"size", file.size}, {"sha256", file.sha256.Hex()}});
  }
  for (const Edge& edge : manifest.edges) out["edges"].push_back(ToJson(edge));
  for (const AnchorRef& anchor : manifest.anchors) out["anchors"].push_back(ToJson(anchor));
  for (const ViewManifest& view : manifest.views) {
    out["views"].push_back({{"view", view.view}, {"manifest", view.manifest.Hex()}});
  }
  return out;
}

std::vector<SideFile> ReadSideFiles(JsonFields& manifest) {
  std::vector<SideFile> files;
  std::set<std::string> seen;
  for (JsonFields& fields : manifest.Objects("side_files", kMaxManifestFiles)) {
    files.push_back(
        {.path = ReadCheckpointPath(fields, seen), .size = fields.Unsigned("size"), .sha256 = fields.Sha256("sha256")});
  }
  return files;
}

std::vector<Edge> ReadEdges(JsonFields& manifest, Version version) {
  std::vector<Edge> edges;
  for (JsonFields& fields : manifest.Objects("edges", kMaxManifestEdges)) {
    edges.push_back({.kind = fields.Token("kind"),
                     .from = fields.VersionNumber("from"),
                     .base_model = fields.Sha256("base_model"),
                     .parts = ReadPatchParts(fields)});
    if (edges.back().from >= version) {
      fields.Refuse(Code::kCorrupt, fmt::format("{}.from is {}, but must be before version {}", fields.where(),
                                                edges.back().from, version));
    }
  }
  return edges;
}

std::vector<AnchorRef> ReadAnchors(JsonFields& manifest, Version version) {
  std::vector<AnchorRef> anchors;
  for (JsonFields& fields : manifest.Objects("anchors", kMaxManifestAnchors)) {
    const Version at = fields.VersionNumber("version");
    if (at > version || (!anchors.empty() && at >= anchors.back().version)) {
      fields.Refuse(Code::kCorrupt, fmt::format("{}.version is {}: anchors stand newest first, none after version {}",
                                                fields.where(), at, version));
    }
    anchors.push_back(
        {.version = at, .bytes = fields.Unsigned("bytes"), .object = ReadObjectRef(fields.Object("object"))});
  }
  return anchors;
}

std::vector<ViewManifest> ReadViews(JsonFields& manifest, const RunId& run) {
  std::vector<ViewManifest> views;
  for (JsonFields& fields : manifest.Objects("views", kMaxViews)) {
    views.push_back({.view = ReadViewName(fields, run, views.empty() ? "" : views.back().view),
                     .manifest = fields.Sha256("manifest")});
  }
  return views;
}

ManifestStats ReadStats(JsonFields fields) {
  return {.elements = fields.Unsigned("elements"),
          .changed = fields.Unsigned("changed"),
          .tensors_changed = fields.Unsigned("tensors_changed"),
          .checkpoint_bytes = fields.Unsigned("checkpoint_bytes"),
          .patch_bytes = fields.Unsigned("patch_bytes")};
}

ManifestSignature ReadSignature(JsonFields fields) {
  const Result<PublicKey> key = PublicKey::FromText(fields.Text("key", kMaxTextSize));
  const Result<Signature> value = Signature::FromHex(fields.Text("value", kMaxTextSize));
  if (key && value) return {.key = *key, .value = *value};
  fields.Refuse(Code::kCorrupt, fmt::format("{}: {}", fields.where(), (key ? value.error() : key.error()).message));
  return {};
}

// What the fields must be to each other.
void CheckMeaning(JsonFields& fields, const Manifest& manifest) {
  if (manifest.parent.has_value() == manifest.version.IsBase()) {
    fields.Refuse(Code::kCorrupt, fmt::format("manifest.parent is {} at version {}: every version but 0 has a parent",
                                              manifest.parent ? "there" : "missing", manifest.version));
  }
  if (manifest.fork && !manifest.version.IsBase()) {
    fields.Refuse(Code::kCorrupt, fmt::format("manifest.fork is there at version {}", manifest.version));
  }
  const bool is_anchor = !manifest.anchors.empty() && manifest.anchors[0].version == manifest.version;
  if (manifest.edges.empty() && !is_anchor && !manifest.fork) {
    fields.Refuse(Code::kCorrupt, fmt::format("manifest has neither an edge nor an anchor: nothing leads to version {}",
                                              manifest.version));
  }
  std::vector<std::string> unknown = manifest.features;
  const bool may_have_boxes = std::erase(unknown, kBoxesFeature) > 0;
  if (!unknown.empty()) {
    fields.Refuse(Code::kUnsupported,
                  fmt::format("manifest needs what this program does not know: {}", fmt::join(unknown, ", ")));
  }
  for (const Edge& edge : manifest.edges) {
    if (!edge.is_boxed() || may_have_boxes) continue;
    fields.Refuse(Code::kCorrupt, fmt::format("manifest.features does not have {}, but the edge from {} does",
                                              kBoxesFeature, edge.from));
  }
}

}  // namespace

uint64_t Edge::bytes() const {
  uint64_t sum = 0;
  for (const PatchPart& part : parts) sum += part.object.size;
  return sum;
}

Result<Bytes> SerializeManifest(const Manifest& manifest) {
  SKERRY_ASSIGN(Bytes bytes, DumpJson(ToJson(manifest), "manifest"));
  if (const Result<Manifest> again = ParseManifest(bytes); !again) {
    return Fail(Code::kInvalid, "can't write this manifest: {}", again.error().message);
  }
  return bytes;
}

Result<Manifest> ParseManifest(ByteSpan bytes) {
  SKERRY_ASSIGN(const json document, ParseJsonObject(bytes, kMaxManifestBytes, "manifest"));
  std::optional<Error> error;
  JsonFields fields(document, "manifest", error);
  fields.CheckFormat(Manifest::kFormat);

  Manifest manifest;
  manifest.features = fields.Tokens("features", kMaxManifestFeatures);
  manifest.run = fields.Run("run");
  manifest.version = fields.VersionNumber("version");
  if (fields.Has("parent")) manifest.parent = fields.Sha256("parent");
  manifest.time = fields.Text("time", kMaxTextSize);
  if (fields.Has("step")) manifest.step = static_cast<int64_t>(fields.Unsigned("step", INT64_MAX));
  manifest.layout = fields.Sha256("layout");
  manifest.model = fields.Sha256("model");
  manifest.tensor_digests = ReadObjectRef(fields.Object("tensor_digests"));
  manifest.side_files = ReadSideFiles(fields);
  manifest.edges = ReadEdges(fields, manifest.version);
  manifest.anchors = ReadAnchors(fields, manifest.version);
  if (fields.Has("fork")) manifest.fork = ReadForkPoint(fields.Object("fork"));
  manifest.stats = ReadStats(fields.Object("stats"));
  if (fields.Has("views")) manifest.views = ReadViews(fields, manifest.run);
  if (fields.Has("signature")) manifest.signature = ReadSignature(fields.Object("signature"));
  CheckMeaning(fields, manifest);
  SKERRY_TRY(fields.status());
  return manifest;
}

}  // namespace skerry
