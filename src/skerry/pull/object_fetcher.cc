#include "skerry/pull/object_fetcher.h"

#include <algorithm>
#include <deque>

#include "skerry/base/interrupt.h"

namespace skerry {
namespace {

// Reads a range of an object by its key, or of an outside base by its file:// URI.
Status ReadRange(const Board& board, const ObjectRef& object, uint64_t offset, MutableByteSpan out) {
  if (!object.key.empty()) return board.store().ReadRange(object.key, offset, out);
  const std::optional<Path> local = board.LocalPath(object);
  if (!local) return Fail(Code::kUnsupported, "can't read {}", object.uri);
  SKERRY_ASSIGN(const File file, File::OpenForReading(*local));
  return file.ReadAt(out, offset);
}

}  // namespace

// Opening and finishing are done by one thread each, without the mutex. While ranges are read, `part` is written to by
// several threads, and noted in under the mutex.
struct ObjectFetcher::Item {
  enum class State { kWaiting, kOpening, kReading, kFinishing, kDone };

  size_t index = 0;
  ObjectRef object;
  Path path;
  const Item* same_before = nullptr;  // the last one before it that is at this path: that one brings it
  State state = State::kWaiting;
  bool ahead = false;      // nobody had asked for it when it was opened
  bool postponed = false;  // failed ahead: tried again when somebody asks for it
  std::optional<PartFile> part;
  std::deque<ByteRange> left;  // that no thread has taken
  int readers = 0;
  std::optional<Error> failure;
  uint64_t come = 0;         // bytes that are there
  uint64_t transferred = 0;  // of these, what was read from the board
  int attempt = 1;
  Sha256 hash;
  uint64_t hashed = 0;   // bytes from the beginning that are in `hash`
  bool hashing = false;  // a thread is at it
  PinnedFile pin;
};

ObjectFetcher::ObjectFetcher(const Board& board, std::vector<Wanted> wanted, const FetchOptions& options,
                             const AheadLimits& ahead, ObjectCache* cache)
    : board_(board), options_(options), ahead_(ahead), cache_(cache) {
  uint64_t ranges = 0;
  for (Wanted& one : wanted) {
    ranges += one.object.size / kMostRangeBytes + 1;
    auto item = std::make_unique<Item>();
    item->index = items_.size();
    item->path = cache_ == nullptr ? std::move(one.path) : cache_->PathOf(one.object);
    item->object = std::move(one.object);
    all_bytes_ += item->object.size;
    for (const auto& before : items_) {
      if (before->path == item->path) item->same_before = before.get();
    }
    items_.push_back(std::move(item));
  }
  const auto most = static_cast<uint64_t>(std::clamp(options_.parallel, 1, kMostParallel));
  parallel_ = std::max(1, static_cast<int>(std::min(most, ranges)));
  range_bytes_ = std::clamp(kMostBufferBytes / static_cast<uint64_t>(parallel_), kLeastRangeBytes, kMostRangeBytes);
  if (!options_.patience.sleep) {
    options_.patience.sleep = [this](std::chrono::milliseconds pause) {
      Lock lock(mutex_);
      changed_.wait_for(lock, pause, [this] { return stopping_; });
    };
  }
  if (parallel_ == 1) return;
  for (int i = 0; i < parallel_; ++i) {
    threads_.emplace_back([this, flag = Interruptible::Current()] {
      const Interruptible inherited(flag);
      Work();
    });
  }
}

ObjectFetcher::~ObjectFetcher() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ObjectFetcher::Work() {
  Bytes buffer;
  Lock lock(mutex_);
  while (!stopping_) {
    const std::optional<Job> job = NextJob(nullptr);
    if (!job) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    Do(*job, buffer);
    lock.lock();
  }
}

Result<FetchedObject> ObjectFetcher::Take(size_t index, Progress& progress) {
  Item& item = *items_[index];
  Bytes buffer;
  uint64_t told = 0;
  const auto tell = [&](uint64_t come) {
    if (come > told) progress.Advance(come - std::exchange(told, come));
  };
  Lock lock(mutex_);
  wanted_ = index + 1;
  changed_.notify_all();
  while (item.state != Item::State::kDone) {
    const uint64_t come = item.come;
    if (threads_.empty()) {
      const std::optional<Job> job = NextJob(&item);
      lock.unlock();
      Do(*job, buffer);
    } else if (come <= told) {
      changed_.wait(lock);
      continue;
    } else {
      lock.unlock();
    }
    tell(come);
    lock.lock();
  }
  if (item.failure) return tl::unexpected<Error>(*item.failure);
  FetchedObject fetched{.path = item.path, .transferred = item.transferred, .pin = std::move(item.pin)};
  lock.unlock();
  if (cache_ != nullptr) cache_->Touch(item.object);  // what comes ahead comes in any order, but this is its use
  tell(item.object.size);
  return fetched;
}

// What was taken is the caller's; what comes ahead of being asked for is bounded.
bool ObjectFetcher::MayOpen(size_t index) const {
  if (index < wanted_) return true;
  if (items_[index]->postponed) return false;
  // In a cache that can't hold all of them, what comes ahead would take the place of what is needed first.
  if (cache_ != nullptr && all_bytes_ > cache_->bound()) return false;
  const uint64_t size = items_[index]->object.size;
  uint64_t bytes = size, objects = 1;
  for (size_t i = wanted_; i < index; ++i, ++objects) bytes += items_[i]->object.size;
  if (objects > ahead_.objects || bytes > ahead_.bytes) return false;
  if (cache_ != nullptr && ahead_.spare_bytes == 0) return true;
  const Path folder = cache_ == nullptr ? items_[index]->path.parent_path() : cache_->directory();
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  return !error && space.available >= bytes + ahead_.spare_bytes;
}

std::optional<ObjectFetcher::Job> ObjectFetcher::NextJob(const Item* only) {
  for (const auto& item : items_) {
    if (only != nullptr && item.get() != only) continue;
    if (!item->left.empty()) {
      const ByteRange range = item->left.front();
      // Without a record only the length says what has come, so one after the other.
      if (item->part->out_of_order() || item->readers == 0) {
        item->left.pop_front();
        ++item->readers;
        return Job{item.get(), range};
      }
    } else if (item->state == Item::State::kWaiting) {
      // Opened now, it would wait for the other one's file, which may stay pinned for as long as this one is wanted.
      if (item->same_before != nullptr && item->same_before->state != Item::State::kDone) continue;
      if (!MayOpen(item->index)) return std::nullopt;
      item->state = Item::State::kOpening;
      item->ahead = item->index >= wanted_;
      ++item->readers;
      return Job{item.get(), {}};
    } else if (item->failure) {
      return std::nullopt;  // nobody will get further than this one
    }
  }
  return std::nullopt;
}

void ObjectFetcher::Do(const Job& job, Bytes& buffer) {
  Item& item = *job.item;
  Status done = job.range.size() == 0 ? Open(item) : Read(item, job.range, buffer);
  if (done) done = Hash(item, buffer);
  Lock lock(mutex_);
  --item.readers;
  if (!done && !item.failure) {
    item.failure = std::move(done).error();
    item.left.clear();
  }
  if (item.state != Item::State::kDone && item.left.empty() && item.readers == 0) {
    item.state = Item::State::kFinishing;
    lock.unlock();
    Status finished = item.failure ? Status() : Finish(item);
    lock.lock();
    if (!finished) item.failure = std::move(finished).error();
    if (item.failure) Failed(item, *item.failure);
  }
  changed_.notify_all();
}

// What was not there or had no room before anybody asked for it may be there, or have room, when somebody does.
void ObjectFetcher::Failed(Item& item, Error error) {
  item.part.reset();
  item.come = 0;
  item.hash = Sha256();
  item.hashed = 0;
  const bool may_pass = error.code == Code::kUnavailable || error.code == Code::kNoSpace;
  if (!item.ahead || !may_pass) {
    item.failure = std::move(error);
    item.state = Item::State::kDone;
    return;
  }
  item.failure.reset();
  item.postponed = true;
  item.attempt = 1;
  item.state = Item::State::kWaiting;
}

Result<bool> ObjectFetcher::IsThere(Item& item) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(item.path, error);
  if (error || size != item.object.size) return false;
  Result<PinnedFile> pin = PinnedFile::Share(item.path);
  if (!pin) return pin.error().code == Code::kNotFound ? Result<bool>(false) : tl::unexpected(pin.error());
  SKERRY_ASSIGN(const FileSource source, FileSource::Open(item.path));
  SKERRY_ASSIGN(const Digest digest, DigestOf(source));
  if (digest != item.object.sha256) return false;
  if (cache_ != nullptr) {
    cache_->Touch(item.object);
    item.pin = *std::move(pin);
  }
  return true;
}

// Room is made, and the file gets its length, before anything is read.
Status ObjectFetcher::Begin(const Item& item, PartFile& part) const {
  if (cache_ == nullptr) {
    const uint64_t missing = item.object.size - std::min(item.object.size, part.length());
    SKERRY_TRY(RequireSpace(item.path.parent_path(), missing, item.object.name()));
    return part.Begin(/*out_of_order=*/parallel_ > 1 && item.object.size > range_bytes_);
  }
  // What is there under that name is damaged, or it would have been taken.
  (void)RemoveUnlessPinned(item.path);
  SKERRY_ASSIGN(const FileLock room, cache_->MakeRoom(item.object, part.length()));
  return part.Begin(/*out_of_order=*/true);
}

Status ObjectFetcher::Open(Item& item) {
  SKERRY_ASSIGN(bool there, IsThere(item));
  if (!there) {
    SKERRY_TRY(MakeDirectories(item.path.parent_path()));
    SKERRY_ASSIGN(PartFile part, PartFile::Open(item.path, item.object));
    // Another process may have brought it while this one waited.
    SKERRY_ASSIGN(there, IsThere(item));
    Status begun = there ? Status() : Begin(item, part);
    if (there || (!begun && part.length() == 0)) part.Abandon();
    SKERRY_TRY(std::move(begun));
    if (!there) item.part.emplace(std::move(part));
  }
  const Lock lock(mutex_);
  if (there) {
    item.come = item.object.size;
    item.state = Item::State::kDone;
    return {};
  }
  const std::vector<ByteRange> missing = item.part->Missing(range_bytes_);
  item.left.assign(missing.begin(), missing.end());
  item.come = item.part->present();
  item.state = Item::State::kReading;
  changed_.notify_all();
  return {};
}

Status ObjectFetcher::Read(Item& item, const ByteRange& range, Bytes& buffer) {
  buffer.resize(range.size());
  SKERRY_TRY(options_.patience.Retry(item.object.name(), [&]() -> Status {
    {
      const Lock lock(mutex_);
      if (stopping_) return Fail(Code::kIo, "{}: stopped", item.object.name());
    }
    return ReadRange(board_, item.object, range.begin, buffer);
  }));
  SKERRY_TRY(item.part->Write(range.begin, buffer));
  const Lock lock(mutex_);
  SKERRY_TRY(item.part->Note(range));
  item.come += range.size();
  item.transferred += range.size();
  changed_.notify_all();
  return {};
}

// Hashes what has come from the beginning without a gap, unless another thread is at it: then that one goes on.
Status ObjectFetcher::Hash(Item& item, Bytes& buffer) {
  Lock lock(mutex_);
  if (item.hashing || item.state != Item::State::kReading) return {};
  item.hashing = true;
  Status read;
  while (read && item.hashed < item.part->Prefix()) {
    const ByteRange range{item.hashed, std::min(item.part->Prefix(), item.hashed + range_bytes_)};
    lock.unlock();
    buffer.resize(range.size());
    read = item.part->Read(range.begin, buffer);
    if (read) item.hash.Update(buffer);
    lock.lock();
    item.hashed = range.end;
  }
  item.hashing = false;
  return read;
}

Status ObjectFetcher::Finish(Item& item) {
  const Digest digest = item.hash.Finish();
  if (digest == item.object.sha256) {
    std::optional<FileLock> names;
    if (cache_ != nullptr) {
      SKERRY_ASSIGN(names, cache_->LockNames());
    }
    SKERRY_ASSIGN(PinnedFile file, item.part->Finish());
    names.reset();
    if (cache_ != nullptr) {
      SKERRY_TRY(file.Downgrade(item.path));
      cache_->Touch(item.object);
      item.pin = std::move(file);
    }
    const Lock lock(mutex_);
    item.part.reset();
    item.state = Item::State::kDone;
    return {};
  }
  if (item.attempt < options_.attempts && item.object.size > 0) {
    SKERRY_TRY(item.part->Restart());
    const std::vector<ByteRange> missing = item.part->Missing(range_bytes_);
    const Lock lock(mutex_);
    ++item.attempt;
    item.hash = Sha256();
    item.hashed = item.come = 0;
    item.left.assign(missing.begin(), missing.end());
    item.state = Item::State::kReading;
    return {};
  }
  item.part->Abandon();
  return Fail(Code::kCorrupt, "{}: SHA-256 is {}, but its manifest says {}", item.object.name(), digest.Short(),
              item.object.sha256.Short());
}

}  // namespace skerry
