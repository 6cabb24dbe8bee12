#include "skerry/board/references_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "skerry/board/keys.h"

namespace skerry {
namespace {

using nlohmann::json;

constexpr size_t kMaxUriSize = 4096;
constexpr std::string_view kOfBoxes = "boxes";

bool IsAbsoluteUri(std::string_view uri) {
  const size_t colon = uri.find("://");
  if (colon == 0 || colon == std::string_view::npos || colon + 3 == uri.size()) return false;
  for (const char c : uri) {
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) return false;
  }
  return true;
}

std::vector<PatchPart::TensorRange> ReadTensorRanges(JsonFields& part) {
  std::vector<PatchPart::TensorRange> ranges;
  for (JsonFields& fields : part.Objects("tensors", kMaxTensorRanges)) {
    const PatchPart::TensorRange range{.first = fields.Unsigned("first", UINT32_MAX),
                                       .count = fields.Unsigned("count", UINT32_MAX)};
    if (range.count == 0 || (!ranges.empty() && range.first <= ranges.back().first + ranges.back().count)) {
      fields.Refuse(Code::kCorrupt, fields.where() + " is empty, or not after a gap behind the one before it");
    }
    ranges.push_back(range);
  }
  return ranges;
}

void CheckThatPartsAreApart(JsonFields& fields, const std::vector<PatchPart>& parts) {
  if (parts.empty()) fields.Refuse(Code::kCorrupt, fields.where() + ".objects is empty");
  if (parts.size() < 2) return;
  std::vector<PatchPart::TensorRange> all;
  for (const PatchPart& part : parts) {
    if (part.boxed != parts.front().boxed) {
      fields.Refuse(Code::kCorrupt, fmt::format("{}.objects: some parts are boxed, and some are not", fields.where()));
    }
    if (part.tensors.empty()) {
      fields.Refuse(Code::kCorrupt, fmt::format("{}.objects has {} parts, but {} does not say its tensors",
                                                fields.where(), parts.size(), part.object.name()));
    }
    all.insert(all.end(), part.tensors.begin(), part.tensors.end());
  }
  if (parts.front().boxed) return;  // whether boxes overlap, only the patches tell
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].first >= all[i - 1].first + all[i - 1].count) continue;
    fields.Refuse(Code::kCorrupt, fmt::format("{}.objects: two parts have tensor {}", fields.where(), all[i].first));
  }
}

}  // namespace

json ToJson(const ObjectRef& object) {
  json out = {{"size", object.size}, {"sha256", object.sha256.Hex()}};
  if (!object.key.empty()) out["key"] = object.key;
  if (!object.uri.empty()) out["uri"] = object.uri;
  return out;
}

json ToJson(const std::vector<PatchPart>& parts) {
  json out = json::array();
  for (const PatchPart& part : parts) {
    out.push_back(ToJson(part.object));
    if (part.boxed) out.back()["of"] = kOfBoxes;
    if (part.tensors.empty()) continue;
    json& ranges = out.back()["tensors"] = json::array();
    for (const auto& range : part.tensors) ranges.push_back({{"first", range.first}, {"count", range.count}});
  }
  return out;
}

json ToJson(const ForkPoint& fork) {
  return {{"run", fork.run.str()}, {"version", fork.version.number()}, {"manifest", fork.manifest.Hex()}};
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

std::vector<PatchPart> ReadPatchParts(JsonFields& fields) {
  std::vector<PatchPart> parts;
  for (JsonFields& part : fields.Objects("objects", kMaxPatchParts)) {
    parts.push_back({.object = ReadObjectRef(part), .tensors = {}});
    if (part.Has("tensors")) parts.back().tensors = ReadTensorRanges(part);
    if (!part.Has("of")) continue;
    const std::string of = part.Token("of");
    parts.back().boxed = of == kOfBoxes;
    if (of != kOfBoxes) part.Refuse(Code::kUnsupported, fmt::format("{} is of {}, not boxes", part.where(), of));
  }
  CheckThatPartsAreApart(fields, parts);
  return parts;
}

ForkPoint ReadForkPoint(JsonFields fields) {
  return {.run = fields.Run("run"), .version = fields.VersionNumber("version"), .manifest = fields.Sha256("manifest")};
}

std::string ReadCheckpointPath(JsonFields& fields, std::set<std::string>& seen) {
  std::string path = fields.Text("path", kMaxKeySize);
  fields.RefuseUnless(ValidateCheckpointPath(path), "path");
  if (!seen.insert(path).second) {
    fields.Refuse(Code::kCorrupt, fmt::format("{}.path is there twice: '{}'", fields.where(), path));
  }
  return path;
}

std::string ReadViewName(JsonFields& fields, const RunId& run, const std::string& before) {
  std::string view = fields.Text("view", RunId::kMaxPartSize);
  if (const Result<RunId> id = run.View(view); !id || !id->IsView() || run.IsView()) {
    fields.Refuse(Code::kCorrupt, fmt::format("{}.view is '{}', but must be the name of a view{}", fields.where(), view,
                                              run.IsView() ? fmt::format(" ({} is one itself)", run) : ""));
  }
  if (view <= before) {
    fields.Refuse(Code::kCorrupt, fmt::format("{}.view is '{}' after '{}': views are sorted by name, each there once",
                                              fields.where(), view, before));
  }
  return view;
}

}  // namespace skerry
