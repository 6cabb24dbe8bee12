#include "skerry/apply/state.h"

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

constexpr uint64_t kMaxStateBytes = 256 << 20;  // 35 bytes a tensor

}  // namespace

std::string VersionLabel::Describe() const {
  if (!version) return "its state.json";
  return fmt::format("{} version {}", run, *version);
}

Path DefaultStateDirectory(const Path& checkpoint) { return checkpoint / ".skerry"; }

Bytes CheckpointState::Serialize() const {
  nlohmann::json json = {{"format", 1}, {"layout", layout.Hex()}, {"model", model.Hex()}};
  if (label.version) {
    json["run"] = label.run;
    json["version"] = label.version->number();
  }
  auto& list = json["tensors"] = nlohmann::json::array();
  for (const RunningDigest& digest : tensors) list.push_back(fmt::format("{:016x}{:016x}", digest.a, digest.b));
  return ToBytes(AsBytes(json.dump()));
}

Result<CheckpointState> CheckpointState::Parse(ByteSpan bytes) {
  const auto text = AsText(bytes);
  const auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const auto text_of = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  if (!json.is_object() || !json.contains("format") || json["format"] != 1 || !json.contains("tensors") ||
      !json["tensors"].is_array()) {
    return Fail(Code::kCorrupt, "not a state of format 1");
  }
  CheckpointState state;
  SKERRY_ASSIGN(state.layout, Digest::FromHex(text_of("layout")));
  SKERRY_ASSIGN(state.model, Digest::FromHex(text_of("model")));
  if (json.contains("version")) {
    if (!json["version"].is_number_unsigned() || json["version"].get<uint64_t>() > Version::kMax)
      return Fail(Code::kCorrupt, "version {}", json["version"].dump());
    state.label = {text_of("run"), Version(json["version"].get<uint64_t>())};
  }
  for (const auto& item : json["tensors"]) {
    if (!item.is_string()) return Fail(Code::kCorrupt, "a tensor's digest is {}", item.dump());
    SKERRY_ASSIGN(const Bytes raw, FromHex(item.get<std::string>()));
    if (raw.size() != 16) return Fail(Code::kCorrupt, "a tensor's digest has {} bytes, not 16", raw.size());
    // Written as two big-endian halves, as people read numbers.
    RunningDigest digest;
    for (size_t i = 0; i < 8; ++i) {
      digest.a = digest.a << 8 | std::to_integer<uint64_t>(raw[i]);
      digest.b = digest.b << 8 | std::to_integer<uint64_t>(raw[8 + i]);
    }
    state.tensors.push_back(digest);
  }
  return state;
}

Result<std::optional<CheckpointState>> ReadState(const Path& state_directory) {
  const Path path = state_directory / kStateName;
  const auto bytes = ReadFile(path, kMaxStateBytes);
  if (!bytes && bytes.error().code == Code::kNotFound) return std::optional<CheckpointState>();
  if (!bytes) return tl::unexpected(bytes.error());
  auto state = CheckpointState::Parse(*bytes);
  if (!state) return Annotate(std::move(state).error(), path.string());
  return std::optional<CheckpointState>(*std::move(state));
}

Status WriteState(const Path& state_directory, const CheckpointState& state) {
  return WriteFileAtomically(state_directory / kStateName, state.Serialize());
}

}  // namespace skerry
