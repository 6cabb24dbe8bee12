#include "skerry/pull/object_cache.h"

#include <algorithm>
#include <string>
#include <vector>

namespace skerry {
namespace {

namespace fs = std::filesystem;

bool IsPart(const Path& path) { return path.extension() == ".part"; }

// With what is noted about a .part file. False where somebody has it pinned.
bool Remove(const Path& path) {
  if (!RemoveUnlessPinned(path)) return false;
  std::error_code error;
  if (IsPart(path)) fs::remove(path.string() + ".ranges", error);
  return true;
}

fs::file_time_type FileTimeNow(const Clock& clock) {
  return fs::file_time_type::clock::from_sys(std::chrono::time_point_cast<std::chrono::nanoseconds>(clock.Now()));
}

}  // namespace

struct ObjectCache::Entry {
  fs::file_time_type used;
  Path path;
  uint64_t size = 0;
  auto operator<=>(const Entry&) const = default;
};

// What the folder holds: everything, and of that the objects that nobody uses, oldest first.
struct ObjectCache::Content {
  uint64_t bytes = 0;
  uint64_t removable_bytes = 0;
  std::vector<Entry> removable;
};

Result<ObjectCache> ObjectCache::Open(Path directory, uint64_t bound, const Clock& clock) {
  SKERRY_TRY(MakeDirectories(directory));
  ObjectCache cache(std::move(directory), bound, clock);
  cache.SweepStale();
  // The bound may have been lowered since. What is in use is left to the next call.
  SKERRY_ASSIGN(const FileLock lock, cache.LockNames());
  SKERRY_ASSIGN(Content content, cache.Look());
  for (const Entry& entry : content.removable) {
    if (content.bytes <= bound) break;
    if (Remove(entry.path)) content.bytes -= entry.size;
  }
  return cache;
}

Path ObjectCache::PathOf(const ObjectRef& object) const { return directory_ / (object.sha256.Hex() + ".skerry"); }

bool ObjectCache::Has(const ObjectRef& object) const {
  std::error_code error;
  const uint64_t size = fs::file_size(PathOf(object), error);
  return !error && size == object.size;
}

Result<ObjectCache::Content> ObjectCache::Look(const Path& keep) const {
  Content content;
  std::error_code error;
  auto entry = fs::directory_iterator(directory_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code gone;  // another process may remove it meanwhile
    if (!entry->is_regular_file(gone)) continue;
    const Entry found{.used = entry->last_write_time(gone), .path = entry->path(), .size = entry->file_size(gone)};
    if (gone) continue;
    content.bytes += found.size;
    const bool removable = found.path.extension() == ".skerry" || (IsPart(found.path) && found.path != keep);
    if (!removable || IsPinned(found.path)) continue;
    content.removable_bytes += found.size;
    content.removable.push_back(found);
  }
  if (error) return ErrnoFailure(error.value(), "list", directory_);
  std::sort(content.removable.begin(), content.removable.end());
  return content;
}

Result<uint64_t> ObjectCache::ToRemove(const Content& content, uint64_t bytes) const {
  const uint64_t stays = content.bytes - content.removable_bytes;
  if (bytes > bound_ || stays > bound_ - bytes) {
    return Fail(Code::kNoSpace, "{} bytes more are needed in {}, whose bound is {} bytes, {} of them in use: raise it",
                bytes, directory_.string(), bound_, stays);
  }
  SKERRY_ASSIGN(const uint64_t free, FreeSpace(directory_));
  if (free + content.removable_bytes < bytes) {
    return Fail(Code::kNoSpace, "fetching needs {} bytes in {}, but {} are free and {} can be removed", bytes,
                directory_.string(), free, content.removable_bytes);
  }
  const uint64_t over_bound = content.bytes + bytes > bound_ ? content.bytes + bytes - bound_ : 0;
  return std::max(over_bound, free < bytes ? bytes - free : 0);
}

Result<FileLock> ObjectCache::LockNames() const { return FileLock::Acquire(directory_ / "lock"); }

Status ObjectCache::CheckRoom(uint64_t bytes) const {
  SKERRY_ASSIGN(const FileLock lock, LockNames());
  SKERRY_ASSIGN(const Content content, Look());
  SKERRY_TRY(ToRemove(content, bytes));
  return {};
}

Result<FileLock> ObjectCache::MakeRoom(const ObjectRef& object, uint64_t present) const {
  SKERRY_ASSIGN(FileLock lock, LockNames());
  SKERRY_ASSIGN(const Content content, Look(PathOf(object).string() + ".part"));
  SKERRY_ASSIGN(uint64_t to_remove, ToRemove(content, object.size - std::min(object.size, present)));
  for (const Entry& entry : content.removable) {
    if (to_remove == 0) break;
    if (!Remove(entry.path)) continue;
    to_remove -= std::min(to_remove, entry.size);
  }
  if (to_remove == 0) return lock;
  return Fail(Code::kUnavailable, "{}: others took objects into use while room for {} was made", directory_.string(),
              object.name());
}

void ObjectCache::Touch(const ObjectRef& object) const {
  std::error_code error;  // then it counts as older than it is
  fs::last_write_time(PathOf(object), FileTimeNow(*clock_), error);
}

void ObjectCache::SweepStale() const {
  std::error_code error;
  const auto limit = FileTimeNow(*clock_) - kStaleAfter;
  std::vector<Path> parts;
  for (auto entry = fs::directory_iterator(directory_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    if (IsPart(entry->path()) && entry->last_write_time(gone) < limit && !gone) parts.push_back(entry->path());
  }
  for (const Path& part : parts) Remove(part);
}

}  // namespace skerry
