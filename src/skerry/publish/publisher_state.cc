#include "skerry/publish/publisher_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "skerry/base/temporary.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxNoteBytes = 64 << 20;

Result<std::string> ReadOrMakeId(const Path& path) {
  auto bytes = ReadFile(path, 256);
  if (bytes && !bytes->empty()) return ToString(*bytes);
  if (!bytes && bytes.error().code != Code::kNotFound) return tl::unexpected(bytes.error());
  const std::string id = RandomToken();
  SKERRY_TRY(WriteFileAtomically(path, AsBytes(id)));
  return id;
}

// The file is "<board> <run> <epoch>".
Result<uint64_t> ReadEpoch(const Path& path, const std::string& of) {
  const auto bytes = ReadFile(path, 512);
  if (!bytes && bytes.error().code == Code::kNotFound) return 0;
  SKERRY_TRY(bytes);
  const std::string text = ToString(*bytes);
  if (!text.starts_with(of + " ")) return 0;
  const std::string number = text.substr(of.size() + 1);
  if (number.empty() || number.size() > 19 || number.find_first_not_of("0123456789") != std::string::npos) {
    return Fail(Code::kCorrupt, "{} should end in the last epoch, but is '{}'", path.string(), text);
  }
  return std::stoull(number);
}

void WriteText(ByteWriter& writer, ByteSpan text) {
  writer.Varint(text.size());
  writer.Raw(text);
}

ByteSpan ReadText(ByteReader& reader) { return reader.Raw(reader.Varint()); }

Result<Bytes> Serialize(const Position& position, const std::string& of) {
  SKERRY_ASSIGN(const Bytes head, SerializeHead(position.at.head));
  SKERRY_ASSIGN(const Bytes manifest, SerializeManifest(position.manifest));
  Bytes note;
  ByteWriter writer(note);
  WriteText(writer, AsBytes(of));
  WriteText(writer, head);
  WriteText(writer, AsBytes(position.at.generation.token()));
  WriteText(writer, manifest);
  writer.Varint(position.tails.size());
  for (const auto& [version, bytes] : position.tails) {
    writer.Varint(version.number());
    writer.Varint(bytes);
  }
  writer.Varint(position.anchors.size());
  for (const AnchorRef& anchor : position.anchors) {
    writer.Varint(anchor.version.number());
    writer.Varint(anchor.bytes);
    WriteText(writer, AsBytes(anchor.object.key));
    writer.Varint(anchor.object.size);
    writer.Raw(anchor.object.sha256.bytes);
  }
  return note;
}

// nullopt when it is not what Serialize made for this board and run: then it is as good as none.
std::optional<Position> ParsePosition(ByteSpan note, const std::string& of) {
  ByteReader reader(note);
  if (AsText(ReadText(reader)) != of) return std::nullopt;
  const auto head = ParseHead(ReadText(reader));
  const std::string generation = ToString(ReadText(reader));
  const ByteSpan manifest_bytes = ReadText(reader);
  const auto manifest = ParseManifest(manifest_bytes);
  if (!head || !manifest || Sha256::Of(manifest_bytes) != head->manifest.sha256) return std::nullopt;
  Position position{.at = {*head, Generation(generation)}, .manifest = *manifest, .tails = {}, .anchors = {}};
  for (uint64_t left = reader.Varint(); reader.ok() && left > 0; --left) {
    const Version version(reader.Varint());
    position.tails[version] = reader.Varint();
  }
  for (uint64_t left = reader.Varint(); reader.ok() && left > 0; --left) {
    AnchorRef anchor{.version = Version(reader.Varint()), .bytes = reader.Varint(), .object = {}};
    anchor.object.key = ToString(ReadText(reader));
    anchor.object.size = reader.Varint();
    const ByteSpan sha256 = reader.Raw(Digest::kSize);
    if (!reader.ok()) return std::nullopt;
    std::copy(sha256.begin(), sha256.end(), anchor.object.sha256.bytes.begin());
    position.anchors.push_back(std::move(anchor));
  }
  if (!reader.AtEnd()) return std::nullopt;
  return position;
}

}  // namespace

Result<FileLock> TakeStateDirectory(const Path& directory) {
  SKERRY_TRY(MakeDirectories(directory));
  auto lock = FileLock::TryAcquire(directory / "lock");
  if (!lock && lock.error().code == Code::kConflict) {
    return Fail(Code::kConflict, "another publisher is at work with state directory {}", directory.string());
  }
  if (!lock) return tl::unexpected<Error>(std::move(lock).error());
  SweepTemporaries(directory);
  return *std::move(lock);
}

Result<PublisherState> PublisherState::Open(const Path& directory, const std::string& board, const RunId& run) {
  PublisherState state;
  state.directory_ = directory;
  state.of_ = fmt::format("{} {}", board, run);
  SKERRY_ASSIGN(state.id_, ReadOrMakeId(directory / "publisher"));
  SKERRY_ASSIGN(state.epoch_, ReadEpoch(directory / "epoch", state.of_));
  const auto note = ReadFile(directory / "position", kMaxNoteBytes);
  if (note) state.position_ = ParsePosition(*note, state.of_);
  return state;
}

Status PublisherState::ForgetPosition() {
  position_.reset();
  return RemoveTree(directory_ / "position");
}

Status PublisherState::SetPosition(Position position) {
  SKERRY_ASSIGN(const Bytes note, Serialize(position, of_));
  SKERRY_TRY(WriteFileAtomically(directory_ / "position", note));
  position_ = std::move(position);
  return {};
}

Status PublisherState::OwnEpoch(uint64_t epoch) {
  if (epoch == epoch_) return {};
  SKERRY_TRY(WriteFileAtomically(directory_ / "epoch", AsBytes(fmt::format("{} {}", of_, epoch))));
  epoch_ = epoch;
  return {};
}

}  // namespace skerry
