#include "skerry/board/manifest.h"

#include <nlohmann/json.hpp>
#include <set>

#include "skerry/board/json_fields.h"
#include "skerry/board/keys.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxTextSize = 256;
constexpr size_t kMaxUriSize = 4096;

json ToJson(const ObjectRef& object) {
  json out = {{"size", object.size}, {"sha256", object.sha256.Hex()}};
  if (!object.key.empty()) out["key"] = object.key;
  if (!object.uri.empty()) out["uri"] = object.uri;
  return out;
}

json ToJson(const std::vector<ObjectRef>& objects) {
  json out = json::array();
  for (const ObjectRef& object : objects) out.push_back(ToJson(object));
  return out;
}

json ToJson(const Edge& edge) {
  return {{"kind", edge.kind},
          {"from", edge.from.number()},
          {"base_model", edge.base_model.Hex()},
          {"objects", ToJson(edge.objects)}};
}

json ToJson(const Anchor& anchor) {
  json files = json::array();
  for (const AnchorFile& file : anchor.files) files.push_back({{"path", file.path}, {"object", ToJson(file.object)}});
  return {{"files", std::move(files)}};
}

json ToJson(const ManifestStats& stats) {
  return {{"elements", stats.elements},
          {"changed", stats.changed},
          {"tensors_changed", stats.tensors_changed},
          {"checkpoint_bytes", stats.checkpoint_bytes},
          {"patch_bytes", stats.patch_bytes}};
}

json ToJson(const Manifest& manifest) {
  json out = {{"format", Manifest::kFormat},
              {"features", manifest.features},
              {"run", manifest.run.str()},
              {"version", manifest.version.number()},
              {"time", manifest.time},
              {"layout", manifest.layout.Hex()},
              {"model", manifest.model.Hex()},
              {"tensor_digests", ToJson(manifest.tensor_digests)},
              {"side_files", json::array()},
              {"edges", json::array()},
              {"nearest_anchor", manifest.nearest_anchor.number()},
              {"stats", ToJson(manifest.stats)}};
  if (manifest.parent) out["parent"] = manifest.parent->Hex();
  if (manifest.step) out["step"] = *manifest.step;
  if (manifest.anchor) out["anchor"] = ToJson(*manifest.anchor);
  for (const SideFile& file : manifest.side_files) {
    out["side_files"].push_back({{"path", file.path}, {"size", file.size}, {"sha256", file.sha256.Hex()}});
  }
  for (const Edge& edge : manifest.edges) out["edges"].push_back(ToJson(edge));
  return out;
}

bool IsAbsoluteUri(std::string_view uri) {
  const size_t colon = uri.find("://");
  if (colon == 0 || colon == std::string_view::npos || colon + 3 == uri.size()) return false;
  for (const char c : uri) {
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) return false;
  }
  return true;
}

ObjectRef ReadObjectRef(JsonFields fields) {
  ObjectRef object{.key = {}, .uri = {}, .size = fields.Unsigned("size"), .sha256 = fields.Sha256("sha256")};
  if (fields.Has("key")) {
    object.key = fields.Text("key", kMaxKeySize);
    fields.RefuseUnless(ValidateKey(object.key), "key");
  }
  if (fields.Has("uri")) {
    object.uri = fields.Text("uri", kMaxUriSize);
    if (!IsAbsoluteUri(object.uri)) fields.Refuse(Code::kCorrupt, fields.where() + ".uri is not an absolute URI");
  }
  if (fields.Has("key") == fields.Has("uri")) {
    fields.Refuse(Code::kCorrupt, fields.where() + " must have either a key or a uri");
  }
  return object;
}

std::vector<ObjectRef> ReadObjectRefs(JsonFields& fields) {
  std::vector<ObjectRef> objects;
  for (const JsonFields& object : fields.Objects("objects", kMaxManifestObjects)) {
    objects.push_back(ReadObjectRef(object));
  }
  if (objects.empty()) fields.Refuse(Code::kCorrupt, fields.where() + ".objects is empty");
  return objects;
}

// A path in the checkpoint that no other entry of its list has.
std::string ReadPath(JsonFields& fields, std::set<std::string>& seen) {
  std::string path = fields.Text("path", kMaxKeySize);
  fields.RefuseUnless(ValidateCheckpointPath(path), "path");
  if (!seen.insert(path).second) {
    fields.Refuse(Code::kCorrupt, fmt::format("{}.path is there twice: '{}'", fields.where(), path));
  }
  return path;
}

std::vector<SideFile> ReadSideFiles(JsonFields& manifest) {
  std::vector<SideFile> files;
  std::set<std::string> seen;
  for (JsonFields& fields : manifest.Objects("side_files", kMaxManifestFiles)) {
    files.push_back(
        {.path = ReadPath(fields, seen), .size = fields.Unsigned("size"), .sha256 = fields.Sha256("sha256")});
  }
  return files;
}

std::vector<Edge> ReadEdges(JsonFields& manifest, Version version) {
  std::vector<Edge> edges;
  for (JsonFields& fields : manifest.Objects("edges", kMaxManifestEdges)) {
    edges.push_back({.kind = fields.Token("kind"),
                     .from = fields.VersionNumber("from"),
                     .base_model = fields.Sha256("base_model"),
                     .objects = ReadObjectRefs(fields)});
    if (edges.back().from >= version) {
      fields.Refuse(Code::kCorrupt, fmt::format("{}.from is {}, but must be before version {}", fields.where(),
                                                edges.back().from, version));
    }
  }
  return edges;
}

Anchor ReadAnchor(JsonFields fields) {
  Anchor anchor;
  std::set<std::string> seen;
  for (JsonFields& file : fields.Objects("files", kMaxManifestFiles)) {
    anchor.files.push_back({.path = ReadPath(file, seen), .object = ReadObjectRef(file.Object("object"))});
  }
  if (anchor.files.empty()) fields.Refuse(Code::kCorrupt, fields.where() + ".files is empty");
  return anchor;
}

ManifestStats ReadStats(JsonFields fields) {
  return {.elements = fields.Unsigned("elements"),
          .changed = fields.Unsigned("changed"),
          .tensors_changed = fields.Unsigned("tensors_changed"),
          .checkpoint_bytes = fields.Unsigned("checkpoint_bytes"),
          .patch_bytes = fields.Unsigned("patch_bytes")};
}

// What the fields must be to each other.
void CheckMeaning(JsonFields& fields, const Manifest& manifest) {
  if (manifest.parent.has_value() == manifest.version.IsBase()) {
    fields.Refuse(Code::kCorrupt, fmt::format("manifest.parent is {} at version {}: every version but 0 has a parent",
                                              manifest.parent ? "there" : "missing", manifest.version));
  }
  if (manifest.edges.empty() && !manifest.anchor) {
    fields.Refuse(Code::kCorrupt, fmt::format("manifest has neither an edge nor an anchor: nothing leads to version {}",
                                              manifest.version));
  }
  const bool is_nearest = manifest.nearest_anchor == manifest.version;
  if (manifest.nearest_anchor > manifest.version || is_nearest != manifest.anchor.has_value()) {
    fields.Refuse(Code::kCorrupt,
                  fmt::format("manifest.nearest_anchor is {} at version {}, which has {} anchor of its own",
                              manifest.nearest_anchor, manifest.version, manifest.anchor ? "an" : "no"));
  }
  if (!manifest.features.empty()) {
    fields.Refuse(Code::kUnsupported, fmt::format("manifest needs what this program does not know: {}",
                                                  fmt::join(manifest.features, ", ")));
  }
}

}  // namespace

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
  if (fields.Has("anchor")) manifest.anchor = ReadAnchor(fields.Object("anchor"));
  manifest.nearest_anchor = fields.VersionNumber("nearest_anchor");
  manifest.stats = ReadStats(fields.Object("stats"));
  CheckMeaning(fields, manifest);
  SKERRY_TRY(fields.status());
  return manifest;
}

}  // namespace skerry
