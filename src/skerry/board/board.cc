#include "skerry/board/board.h"

#include <fmt/format.h>

#include "skerry/board/keys.h"
#include "skerry/board/layout_codec.h"
#include "skerry/board/probe.h"

namespace skerry {
namespace {

constexpr std::string_view kFileScheme = "file://";

Result<Bytes> ReadOutside(const ObjectRef& object, const Path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return Fail(Code::kNotFound, "no file {}", object.uri);
  SKERRY_ASSIGN(const FileSource source, FileSource::Open(path));
  if (source.size() != object.size) {
    return Fail(Code::kCorrupt, "{} has {} bytes, expected {}", object.uri, source.size(), object.size);
  }
  Bytes bytes(object.size);
  SKERRY_TRY(source.Read(0, bytes));
  return bytes;
}

}  // namespace

Result<Board> Board::Create(std::shared_ptr<Store> store, std::string id) {
  Result<Board> existing = Open(store);
  if (existing || existing.error().code != Code::kNotFound) return existing;
  SKERRY_ASSIGN(const ProbeReport probe, ProbeStore({store}, kQuickProbe, Progress::None()));
  SKERRY_ASSIGN(const Bytes bytes,
                SerializeBoardInfo({.id = id.empty() ? RandomToken() : std::move(id), .writes = probe.verdict}));
  const Status put = store->PutIfAbsent(BoardKey(), MemorySource(bytes));
  if (!put && put.error().code != Code::kConflict) return tl::unexpected<Error>(put.error());
  return Open(std::move(store));
}

Result<Board> Board::Open(std::shared_ptr<Store> store) {
  const Result<Object> object = store->Get(BoardKey(), kMaxInfoBytes);
  if (!object && object.error().code == Code::kNotFound) {
    return Fail(Code::kNotFound, "no board in {}: {} is not there (`skerry init` makes a board)", store->Describe(),
                BoardKey());
  }
  SKERRY_TRY(object);
  SKERRY_ASSIGN(BoardInfo info, ParseBoardInfo(object->bytes));
  return Board(std::move(store), std::move(info));
}

std::string Board::Describe() const { return fmt::format("board {} in {}", info_.id, store_->Describe()); }

Result<std::vector<RunId>> Board::Runs() const {
  SKERRY_ASSIGN(const std::vector<std::string> names, store_->ListNames(RunsPrefix()));
  std::vector<RunId> runs;
  for (const std::string& name : names) {
    const Result<RunId> run = RunId::Parse(name);
    if (!run) continue;
    const Result<ObjectInfo> head = store_->Stat(HeadKey(*run));
    if (head) {
      runs.push_back(*run);
    } else if (head.error().code != Code::kNotFound) {
      return tl::unexpected<Error>(head.error());
    }
  }
  return runs;
}

Status Board::PutRun(const RunInfo& info) const {
  SKERRY_ASSIGN(const Bytes bytes, SerializeRunInfo(info));
  const Status put = store_->PutIfAbsent(RunKey(info.run), MemorySource(bytes));
  if (put || put.error().code != Code::kConflict) return put;
  SKERRY_ASSIGN(const RunInfo there, ReadRun(info.run));
  return Fail(Code::kConflict, "run {} is there already: base '{}' with layout {}, not '{}' with {}", info.run,
              there.base, there.layout.Short(), info.base, info.layout.Short());
}

Result<RunInfo> Board::ReadRun(const RunId& run) const {
  SKERRY_ASSIGN(const Object object, store_->Get(RunKey(run), kMaxInfoBytes));
  SKERRY_ASSIGN(RunInfo info, ParseRunInfo(object.bytes));
  if (info.run != run) return Fail(Code::kMismatch, "{} describes run {}, not {}", RunKey(run), info.run, run);
  return info;
}

Status Board::PutObject(std::string_view key, const ByteSource& source) const {
  return store_->PutIfAbsent(key, source);
}

Result<Bytes> Board::ReadObject(const ObjectRef& object, uint64_t limit) const {
  if (object.size > limit) {
    return Fail(Code::kCorrupt, "{} is said to have {} bytes, more than the limit of {}", object.name(), object.size,
                limit);
  }
  Bytes bytes;
  if (object.key.empty()) {
    const std::optional<Path> path = LocalPath(object);
    if (!path) return Fail(Code::kUnsupported, "can't read {}: only file:// is known", object.uri);
    SKERRY_ASSIGN(bytes, ReadOutside(object, *path));
  } else {
    SKERRY_ASSIGN(const ObjectInfo info, store_->Stat(object.key));
    if (info.size != object.size) {
      return Fail(Code::kCorrupt, "{} has {} bytes, expected {}", object.key, info.size, object.size);
    }
    bytes.resize(object.size);
    SKERRY_TRY(store_->ReadRange(object.key, 0, bytes));
  }
  const Digest found = Sha256::Of(bytes);
  if (found != object.sha256) {
    return Fail(Code::kCorrupt, "{} has SHA-256 {}, expected {}", object.name(), found.Hex(), object.sha256.Hex());
  }
  return bytes;
}

std::optional<Path> Board::LocalPath(const ObjectRef& object) const {
  if (!object.key.empty()) return store_->LocalPath(object.key);
  if (!object.uri.starts_with("file:///")) return std::nullopt;
  return Path(object.uri.substr(kFileScheme.size()));
}

Result<Digest> Board::PutLayout(const RunId& run, ByteSpan json) const {
  if (json.size() > kMaxLayoutBytes) {
    return Fail(Code::kInvalid, "a layout of {} bytes is over the limit of {}", json.size(), kMaxLayoutBytes);
  }
  const Digest layout = Sha256::Of(json);
  SKERRY_ASSIGN(const Bytes packed, PackLayout(json));
  const Status put = store_->PutIfAbsent(LayoutKey(run, layout), MemorySource(packed));
  if (!put && put.error().code == Code::kConflict) {
    // Another release of zstd packs the same layout into other bytes.
    SKERRY_TRY(ReadLayout(run, layout));
    return layout;
  }
  SKERRY_TRY(put);
  return layout;
}

Result<Bytes> Board::ReadLayout(const RunId& run, const Digest& layout) const {
  const std::string key = LayoutKey(run, layout);
  SKERRY_ASSIGN(const Object object, store_->Get(key, kMaxPackedLayoutBytes));
  Result<Bytes> json = UnpackLayout(object.bytes, kMaxLayoutBytes);
  if (!json) return Annotate(std::move(json).error(), key);
  const Digest found = Sha256::Of(*json);
  if (found != layout) return Fail(Code::kCorrupt, "{} holds a layout with SHA-256 {}", key, found.Hex());
  return json;
}

}  // namespace skerry
