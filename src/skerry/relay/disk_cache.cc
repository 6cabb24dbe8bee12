#include "skerry/relay/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace skerry {
namespace {

namespace fs = std::filesystem;

// Blocks for all of it, so that a full disk is found before the first byte is passed on.
Status Allocate(const File& file, uint64_t size) {
  SKERRY_TRY(file.Truncate(size));
  if (size == 0) return {};
  const int failed = ::posix_fallocate(file.descriptor(), 0, static_cast<off_t>(size));
  if (failed != 0) return ErrnoFailure(failed, "make room in", file.path());
  return {};
}

}  // namespace

DiskCache::Room::~Room() {
  if (!path_.empty()) cache_.GiveBack(*this);
}

Result<std::unique_ptr<DiskCache>> DiskCache::Open(const Path& directory, uint64_t bound) {
  if (bound == 0) return Fail(Code::kInvalid, "the cache {} needs a size", directory.string());
  SKERRY_TRY(MakeDirectories(directory / "objects"));
  auto lock = FileLock::TryAcquire(directory / "lock");
  if (!lock && lock.error().code == Code::kConflict) {
    return Fail(Code::kConflict, "the cache {} is in use by another relay", directory.string());
  }
  if (!lock) return tl::unexpected<Error>(std::move(lock).error());
  std::unique_ptr<DiskCache> cache(new DiskCache(directory, bound, *std::move(lock)));
  SKERRY_TRY(cache->TakeOver());
  return cache;
}

Status DiskCache::TakeOver() {
  SKERRY_TRY(RemoveTree(directory_ / "filling"));
  SKERRY_TRY(MakeDirectories(directory_ / "filling"));
  struct Seen {
    fs::file_time_type time;
    std::string key;
    uint64_t size;
  };
  std::vector<Seen> seen;
  std::error_code error;
  const Path root = directory_ / "objects";
  for (fs::recursive_directory_iterator i(root, error), end; !error && i != end; i.increment(error)) {
    if (!i->is_regular_file(error)) continue;
    seen.push_back({i->last_write_time(error), i->path().lexically_relative(root).string(), i->file_size(error)});
  }
  if (error) return Fail(Code::kIo, "cannot list the cache {}: {}", root.string(), error.message());
  std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.time < b.time; });
  const std::lock_guard lock(mutex_);
  for (const Seen& file : seen) Add(file.key, {.size = file.size});
  if (bytes_ > bound_) Evict(0);
  return {};
}

void DiskCache::Add(const std::string& key, Entry entry) {
  Remove(key);
  entry.used = next_use_++;
  by_use_[entry.used] = key;
  bytes_ += entry.size;
  entries_[key] = entry;
}

void DiskCache::Remove(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  bytes_ -= found->second.size;
  by_use_.erase(found->second.used);
  entries_.erase(found);
}

void DiskCache::Evict(uint64_t bytes) {
  for (auto i = by_use_.begin(); i != by_use_.end() && taken() + bytes > bound_;) {
    const std::string key = (i++)->second;  // Remove takes the other one
    if (pinned_.contains(key)) continue;
    std::error_code error;
    fs::remove(PathOf(key), error);
    evicted_ += entries_[key].size;
    Remove(key);
  }
}

Result<DiskCache::Place> DiskCache::MakeRoom(uint64_t size) {
  std::unique_ptr<Room> room;
  {
    const std::lock_guard lock(mutex_);
    uint64_t pinned = 0;
    for (const std::string& key : pinned_) {
      if (const auto found = entries_.find(key); found != entries_.end()) pinned += found->second.size;
    }
    if (size > bound_ || pinned + reserved_ > bound_ - size) {
      return Fail(Code::kNoSpace, "the cache {} has no room for {} bytes: {} of {} are pinned or being filled",
                  directory_.string(), size, pinned + reserved_, bound_);
    }
    Evict(size);
    reserved_ += size;
    room = std::make_unique<Room>(*this, directory_ / "filling" / std::to_string(next_file_++), size);
  }
  SKERRY_ASSIGN(File file, File::Create(room->path_));
  Status allocated = Allocate(file, size);
  if (!allocated && allocated.error().code == Code::kNoSpace) {
    // Others fill the disk: what is used least makes room, as if the bound were that much less.
    {
      const std::lock_guard lock(mutex_);
      const uint64_t before = taken();
      Evict(bound_ - std::min(bound_, before - std::min(before, size)));
    }
    allocated = Allocate(file, size);
  }
  SKERRY_TRY(allocated);
  return Place{std::move(file), std::move(room)};
}

Status DiskCache::Keep(Room& room, const std::string& key, const Digest& sha256) {
  const Path path = PathOf(key);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return Fail(Code::kIo, "cannot make {}: {}", path.parent_path().string(), error.message());
  const std::lock_guard lock(mutex_);
  SKERRY_TRY(Rename(room.path_, path));
  room.path_.clear();
  reserved_ -= room.size_;
  Add(key, {.size = room.size_, .checked = sha256});
  return {};
}

void DiskCache::GiveBack(Room& room) {
  std::error_code error;
  fs::remove(room.path_, error);
  const std::lock_guard lock(mutex_);
  reserved_ -= room.size_;
}

bool DiskCache::Has(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(key);
}

Result<DiskCache::Found> DiskCache::Find(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return Fail(Code::kNotFound, "{} is not in the cache", key);
    by_use_.erase(found->second.used);
    found->second.used = next_use_++;
    by_use_[found->second.used] = key;
  }
  SKERRY_ASSIGN(File file, File::OpenForReading(PathOf(key)));
  // The order of use, for the next start.
  ::futimens(file.descriptor(), nullptr);
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.size != size) {
    return Fail(Code::kCorrupt, "{} in the cache has {} bytes, not those that were kept", key, size);
  }
  return Found{std::move(file), size, found->second.checked};
}

void DiskCache::SetChecked(const std::string& key, const Digest& sha256) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) found->second.checked = sha256;
}

void DiskCache::Drop(const std::string& key) {
  const std::lock_guard lock(mutex_);
  std::error_code error;
  if (entries_.contains(key)) fs::remove(PathOf(key), error);
  Remove(key);
}

void DiskCache::Pin(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  pinned_.clear();
  uint64_t bytes = 0;
  for (const std::string& key : keys) {
    if (const auto found = entries_.find(key); found != entries_.end()) bytes += found->second.size;
    if (bytes > bound_) break;
    pinned_.insert(key);
  }
}

DiskCache::Counts DiskCache::Look() const {
  const std::lock_guard lock(mutex_);
  Counts counts{.bytes = bytes_, .bound = bound_, .objects = entries_.size(), .evicted_bytes = evicted_};
  for (const std::string& key : pinned_) {
    if (const auto found = entries_.find(key); found != entries_.end()) counts.pinned_bytes += found->second.size;
  }
  return counts;
}

}  // namespace skerry
