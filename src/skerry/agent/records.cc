#include "skerry/agent/records.h"

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

constexpr uint64_t kMaxRecordBytes = 1 << 20;

using Json = nlohmann::ordered_json;

Path PolicyPath(const Path& state_directory) { return state_directory / "policy.json"; }

Status WriteJson(const Path& path, const Json& json) {
  SKERRY_TRY(MakeDirectories(path.parent_path()));
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return WriteFileAtomically(path, AsBytes(text));
}

// Discarded where the bytes are no JSON object.
Json ParseObject(const Bytes& bytes) {
  Json json = Json::parse(AsText(bytes), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json(Json::value_t::discarded);
}

std::optional<std::string> Text(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

Result<std::optional<Policy>> ReadPolicy(const Path& state_directory) {
  const Path path = PolicyPath(state_directory);
  const auto bytes = ReadFile(path, kMaxRecordBytes);
  if (!bytes && bytes.error().code == Code::kNotFound) return std::optional<Policy>();
  if (!bytes) return tl::unexpected<Error>(bytes.error());
  const Json json = ParseObject(*bytes);
  const auto run = json.is_discarded() ? std::nullopt : Text(json, "run");
  const auto follow = json.is_discarded() ? std::nullopt : Text(json, "follow");
  if (!run || !follow) {
    return Fail(Code::kCorrupt, "{} says no run and what to follow: remove it to go back to the command line's",
                path.string());
  }
  SKERRY_ASSIGN(const RunId id, RunId::Parse(*run));
  SKERRY_ASSIGN(Policy policy, Policy::Parse(id, *follow));
  return std::optional<Policy>(std::move(policy));
}

Status WritePolicy(const Path& state_directory, const Policy& policy) {
  return WriteJson(PolicyPath(state_directory), {{"run", policy.run.str()}, {"follow", policy.Follow()}});
}

Status RemovePolicy(const Path& state_directory) {
  SKERRY_TRY(RemoveTree(PolicyPath(state_directory)));
  return SyncDirectory(state_directory);
}

EngineRecords::EngineRecords(Path directory) : path_(std::move(directory) / "engines.json") {
  // What can't be read vouches for nobody: the engines get the whole model.
  const auto bytes = ReadFile(path_, kMaxRecordBytes);
  if (!bytes) return;
  const Json json = ParseObject(*bytes);
  if (json.is_discarded()) return;
  for (const auto& [engine, entry] : json.items()) {
    if (!entry.is_object()) continue;
    const auto label = Text(entry, "label");
    const auto instance = Text(entry, "instance");
    if (label && instance) records_[engine] = {*label, *instance};
  }
  saved_ = records_;
}

const EngineRecord* EngineRecords::Find(const std::string& engine) const {
  const auto found = records_.find(engine);
  return found == records_.end() ? nullptr : &found->second;
}

Status EngineRecords::Save() {
  if (records_ == saved_) return {};
  Json json = Json::object();
  for (const auto& [engine, record] : records_) json[engine] = {{"label", record.label}, {"instance", record.instance}};
  SKERRY_TRY(WriteJson(path_, json));
  saved_ = records_;
  return {};
}

}  // namespace skerry
