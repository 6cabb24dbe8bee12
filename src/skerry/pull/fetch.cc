#include "skerry/pull/fetch.h"

#include <algorithm>
#include <thread>

namespace skerry {
namespace {

constexpr uint64_t kChunk = 4 << 20;

// Reads a range of an object by its key, or of an outside base by its file:// URI.
Status ReadRange(const Board& board, const ObjectRef& object, uint64_t offset, MutableByteSpan out) {
  if (!object.key.empty()) return board.store().ReadRange(object.key, offset, out);
  const std::optional<Path> local = board.LocalPath(object);
  if (!local) return Fail(Code::kUnsupported, "can't read {}", object.uri);
  SKERRY_ASSIGN(const File file, File::OpenForReading(*local));
  return file.ReadAt(out, offset);
}

Result<bool> HasContent(const Path& path, const ObjectRef& object) {
  auto source = FileSource::Open(path);
  if (!source) return source.error().code == Code::kNotFound ? Result<bool>(false) : tl::unexpected(source.error());
  if (source->size() != object.size) return false;
  SKERRY_ASSIGN(const Digest digest, DigestOf(*source));
  return digest == object.sha256;
}

}  // namespace

Status Patience::Retry(std::string_view what, const std::function<Status()>& attempt) const {
  std::chrono::milliseconds waited{0}, pause{100};
  while (true) {
    Status status = attempt();
    if (status) return status;
    const Code code = status.error().code;
    if (code != Code::kNotFound && code != Code::kUnavailable) return status;
    if (waited >= limit) {
      return Fail(Code::kUnavailable, "{} is announced but not there (waited {:.1f} s): {}", what,
                  static_cast<double>(waited.count()) / 1000, status.error().message);
    }
    pause = std::min({pause, limit - waited, std::chrono::milliseconds(2000)});
    if (sleep) {
      sleep(pause);
    } else {
      std::this_thread::sleep_for(pause);
    }
    waited += pause;
    pause *= 2;
  }
}

Result<uint64_t> FetchObject(const Board& board, const ObjectRef& object, const Path& path, const Patience& patience,
                             Progress& progress) {
  SKERRY_ASSIGN(const bool there, HasContent(path, object));
  if (there) {
    progress.Advance(object.size);
    return 0;
  }
  SKERRY_TRY(MakeDirectories(path.parent_path()));
  const Path part = path.string() + ".part";
  SKERRY_ASSIGN(const File file, File::OpenOrCreate(part));
  SKERRY_ASSIGN(uint64_t offset, file.Size());
  if (offset > object.size) offset = 0;
  Sha256 hash;
  Bytes buffer;
  // What an earlier attempt left counts as long as the whole adds up.
  for (uint64_t at = 0; at < offset; at += buffer.size()) {
    buffer.resize(std::min(kChunk, offset - at));
    SKERRY_TRY(file.ReadAt(buffer, at));
    hash.Update(buffer);
  }
  progress.Advance(offset);
  uint64_t transferred = 0;
  while (offset < object.size) {
    buffer.resize(std::min(kChunk, object.size - offset));
    SKERRY_TRY(patience.Retry(object.name(), [&] { return ReadRange(board, object, offset, buffer); }));
    hash.Update(buffer);
    SKERRY_TRY(file.WriteAt(buffer, offset));
    offset += buffer.size();
    transferred += buffer.size();
    progress.Advance(buffer.size());
  }
  SKERRY_TRY(file.Truncate(object.size));
  if (const Digest digest = hash.Finish(); digest != object.sha256) {
    std::error_code error;
    std::filesystem::remove(part, error);
    return Fail(Code::kCorrupt, "{}: SHA-256 is {}, but its manifest says {}", object.name(), digest.Short(),
                object.sha256.Short());
  }
  SKERRY_TRY(file.Sync());
  SKERRY_TRY(Rename(part, path));
  SKERRY_TRY(SyncDirectory(path.parent_path()));
  return transferred;
}

}  // namespace skerry
