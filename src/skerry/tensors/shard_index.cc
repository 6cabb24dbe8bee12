#include "skerry/tensors/shard_index.h"

#include <nlohmann/json.hpp>
#include <set>

namespace skerry {
namespace {

constexpr int kMaxDepth = 16;  // unknown extra fields may nest a little

}  // namespace

std::vector<std::string> ShardIndex::Files() const {
  std::set<std::string> files;
  for (const auto& [tensor, file] : file_of) files.insert(file);
  return {files.begin(), files.end()};
}

Status ShardIndex::CheckShard(const std::string& shard, const SafetensorsHeader& header) const {
  for (const TensorEntry& tensor : header.tensors) {
    const auto at = file_of.find(tensor.name);
    if (at == file_of.end()) {
      return Fail(Code::kCorrupt, "{} holds tensor '{}', which {} does not name", shard, tensor.name, path.string());
    }
    if (at->second != shard) {
      return Fail(Code::kCorrupt, "{} holds tensor '{}', which {} places in {}", shard, tensor.name, path.string(),
                  at->second);
    }
  }
  return {};
}

Status ShardIndex::CheckAllFound(const Layout& layout) const {
  for (const auto& [tensor, file] : file_of) {
    if (layout.Find(tensor) < 0) {
      return Fail(Code::kCorrupt, "{} places tensor '{}' in {}, which does not hold it: is the index stale?",
                  path.string(), tensor, file);
    }
  }
  return {};
}

Result<ShardIndex> ReadShardIndex(const Path& path) {
  SKERRY_ASSIGN(const Bytes bytes, ReadFile(path, kMaxHeaderBytes));
  const std::string_view text = AsText(bytes);
  // The parser would take a NUL byte for the end of its input and not look at what follows.
  if (text.find('\0') != std::string_view::npos) return Fail(Code::kCorrupt, "{} holds a NUL byte", path.string());
  std::set<std::string> keys;
  std::string duplicate;
  bool in_map = false, too_deep = false;
  int maps = 0;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth > kMaxDepth) too_deep = true;
    if (event == nlohmann::json::parse_event_t::key) {
      if (depth == 1 && value == "weight_map") maps += 1;
      if (depth == 1) in_map = value == "weight_map";
      if (depth == 2 && in_map && !keys.insert(value.get<std::string>()).second) duplicate = value;
    }
    return !too_deep;
  };
  const auto document = nlohmann::json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (document.is_discarded() || too_deep || !document.is_object()) {
    return Fail(Code::kCorrupt, "{} is not a JSON object{}", path.string(), too_deep ? " of sane depth" : "");
  }
  if (!duplicate.empty()) return Fail(Code::kCorrupt, "{}: tensor '{}' stands twice", path.string(), duplicate);
  if (maps > 1) return Fail(Code::kCorrupt, "{}: weight_map stands {} times", path.string(), maps);
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object() || map->empty()) {
    return Fail(Code::kCorrupt, "{} has no weight_map", path.string());
  }
  ShardIndex index{.path = path, .file_of = {}};
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return Fail(Code::kCorrupt, "{}: the file of tensor '{}' is {}, not a text", path.string(), tensor, file.dump());
    }
    const auto name = file.get<std::string>();
    if (const Status safe = CheckShardName(name); !safe) return Annotate(safe.error(), path.string());
    index.file_of.emplace(tensor, name);
  }
  return index;
}

}  // namespace skerry
