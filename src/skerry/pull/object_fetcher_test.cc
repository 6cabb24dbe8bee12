#include "skerry/pull/object_fetcher.h"

#include <atomic>
#include <thread>

#include "skerry/board/memory_store.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = 1 << 20;

// Counts what is read, and lets a test fail or hold up reads.
class CountingStore : public MemoryStore {
 public:
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override {
    {
      std::unique_lock lock(mutex_);
      most_at_once_ = std::max(most_at_once_, ++at_once_);
      largest_ = std::max<uint64_t>(largest_, out.size());
      if (enough_at_once_ > 0) changed_.wait(lock, [&] { return most_at_once_ >= enough_at_once_; });
      changed_.notify_all();
    }
    Status read = before ? before(key, offset) : Status();
    if (read) read = MemoryStore::ReadRange(key, offset, out);
    const std::lock_guard lock(mutex_);
    --at_once_;
    if (read) bytes_ += out.size();
    ++reads_[std::string(key)];
    changed_.notify_all();
    return read;
  }
  // Every read waits until so many are under way.
  void HoldUntil(int at_once) { enough_at_once_ = at_once; }
  void WaitForRead(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reads_[key] > 0; });
  }
  uint64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  int reads(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return reads_[key];
  }
  int most_at_once() { return most_at_once_; }
  uint64_t largest() { return largest_; }

  std::function<Status(std::string_view key, uint64_t offset)> before;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int at_once_ = 0, most_at_once_ = 0, enough_at_once_ = 0;
  uint64_t bytes_ = 0, largest_ = 0;
  std::map<std::string, int> reads_;
};

class ObjectFetcherTest : public ::testing::Test {
 protected:
  ObjectRef Store(const std::string& key, uint64_t size) {
    const Bytes content = RandomBytes(size, random_);
    Must(board_.PutObject(key, MemorySource(content)));
    return {.key = key, .uri = {}, .size = size, .sha256 = Sha256::Of(content)};
  }
  std::vector<ObjectRef> StoreSmall(size_t count) {
    std::vector<ObjectRef> objects;
    for (size_t i = 0; i < count; ++i) objects.push_back(Store(fmt::format("small-{}", i), 1000 + i));
    return objects;
  }
  void Replace(const ObjectRef& object, ByteSpan content) {
    Must(store_->Delete(object.key));
    Must(board_.PutObject(object.key, MemorySource(content)));
  }
  std::vector<ObjectFetcher::Wanted> Wanted(const std::vector<ObjectRef>& objects) {
    std::vector<ObjectFetcher::Wanted> wanted;
    for (const ObjectRef& object : objects) wanted.push_back({object, PathOf(object)});
    return wanted;
  }
  Path PathOf(const ObjectRef& object) const { return directory_ / "to" / object.key; }
  static Digest DigestAt(const Path& path) { return Must(DigestOf(Must(FileSource::Open(path)))); }
  Result<uint64_t> Fetch(const ObjectRef& object, FetchOptions options) {
    return FetchObject(board_, object, PathOf(object), options, Progress::None());
  }
  FetchOptions Parallel(int parallel, int attempts = 1) {
    return {
        .patience = {.limit = std::chrono::milliseconds(0), .sleep = {}}, .parallel = parallel, .attempts = attempts};
  }

  Random random_{1};
  std::shared_ptr<CountingStore> store_ = std::make_shared<CountingStore>();
  Board board_ = Must(Board::Create(store_));
  TempDir directory_;
};

TEST_F(ObjectFetcherTest, RangesOfALargeObjectComeAtOnceAndEachOnce) {
  const ObjectRef object = Store("large", 21 * kMiB + 5);
  store_->HoldUntil(4);
  EXPECT_EQ(Must(Fetch(object, Parallel(4))), object.size);
  EXPECT_EQ(DigestAt(PathOf(object)), object.sha256);
  EXPECT_EQ(store_->bytes(), object.size);
  EXPECT_EQ(store_->most_at_once(), 4);
  EXPECT_LE(4 * store_->largest(), ObjectFetcher::kMostBufferBytes);
  EXPECT_THAT(NamesIn(directory_ / "to"), ElementsAre("large"));
  EXPECT_EQ(Must(Fetch(object, Parallel(4))), 0u) << "it is there";
}

TEST_F(ObjectFetcherTest, AfterAFailureOnlyWhatIsMissingIsRead) {
  const ObjectRef object = Store("large", 21 * kMiB);
  std::atomic<int> reads = 0;
  store_->before = [&](std::string_view, uint64_t) -> Status {
    if (++reads > 7) return Fail(Code::kIo, "the line was cut");
    return {};
  };
  EXPECT_THAT(Fetch(object, Parallel(4)), Fails(Code::kIo, HasSubstr("cut")));
  const uint64_t came = store_->bytes();
  EXPECT_GT(came, 10 * kMiB);
  EXPECT_FALSE(std::filesystem::exists(PathOf(object)));
  store_->before = nullptr;
  EXPECT_EQ(Must(Fetch(object, Parallel(1))), object.size - came) << "also one range after the other";
  EXPECT_EQ(DigestAt(PathOf(object)), object.sha256);
}

TEST_F(ObjectFetcherTest, AWrongLeftoverIsThrownAwayAndTheObjectFetchedAnew) {
  const ObjectRef object = Store("large", 9 * kMiB);
  WriteText(PathOf(object).string() + ".part", std::string(5000, 'x'));
  EXPECT_EQ(Must(Fetch(object, Parallel(4, 2))), 2 * object.size - 5000);
  EXPECT_EQ(DigestAt(PathOf(object)), object.sha256);
}

TEST_F(ObjectFetcherTest, WrongBytesOnTheBoardAreCorruptAfterTheLastAttemptAndLeaveNothing) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{100}, 9 * kMiB}) {
    ObjectRef object = Store(fmt::format("of {}", size), size);
    object.sha256 = Sha256::Of("something else");
    const uint64_t before = store_->bytes();
    EXPECT_THAT(Fetch(object, Parallel(4, 2)),
                Fails(Code::kCorrupt, AllOf(HasSubstr("SHA-256"), HasSubstr(object.key))));
    EXPECT_EQ(store_->bytes() - before, 2 * size);
    EXPECT_THAT(NamesIn(directory_ / "to"), IsEmpty());
  }
}

TEST_F(ObjectFetcherTest, TheNextObjectsComeWhileOneIsUsed) {
  const std::vector<ObjectRef> objects = StoreSmall(20);
  store_->HoldUntil(4);
  ObjectFetcher fetcher(board_, Wanted(objects), Parallel(4), {}, nullptr);
  for (size_t i = 0; i < objects.size(); ++i) {
    const FetchedObject fetched = Must(fetcher.Take(i, Progress::None()));
    EXPECT_EQ(DigestAt(fetched.path), objects[i].sha256);
    EXPECT_EQ(fetched.transferred, objects[i].size);
  }
  EXPECT_EQ(store_->most_at_once(), 4);
}

TEST_F(ObjectFetcherTest, NoMoreComeAheadThanTheLimitsAllow) {
  const std::vector<ObjectRef> objects = StoreSmall(10);
  ObjectFetcher fetcher(board_, Wanted(objects), Parallel(4), {.objects = 3}, nullptr);
  Must(fetcher.Take(0, Progress::None()));
  store_->WaitForRead("small-3");
  EXPECT_EQ(store_->reads("small-4"), 0);
  ObjectFetcher by_bytes(board_, Wanted(objects), Parallel(4), {.bytes = 1003 + 1004}, nullptr);
  Must(by_bytes.Take(2, Progress::None()));
  store_->WaitForRead("small-4");
  EXPECT_EQ(store_->reads("small-5"), 0);
  ObjectFetcher no_room(board_, Wanted(objects), Parallel(4), {.spare_bytes = 1ull << 60}, nullptr);
  Must(no_room.Take(6, Progress::None()));
  EXPECT_EQ(store_->reads("small-7"), 0) << "the disk is for others first";
}

TEST_F(ObjectFetcherTest, WhatFailsAheadIsTriedAgainWhenItIsAskedFor) {
  const std::vector<ObjectRef> objects = StoreSmall(3);
  std::atomic<bool> there = false;
  store_->before = [&](std::string_view key, uint64_t) -> Status {
    if (key == "small-1" && !there) return Fail(Code::kNotFound, "not yet");
    return {};
  };
  ObjectFetcher fetcher(board_, Wanted(objects), Parallel(4), {}, nullptr);
  Must(fetcher.Take(0, Progress::None()));
  store_->WaitForRead("small-1");
  there = true;
  EXPECT_EQ(DigestAt(Must(fetcher.Take(1, Progress::None())).path), objects[1].sha256);
  EXPECT_THAT(fetcher.Take(2, Progress::None()), Succeeds());
}

TEST_F(ObjectFetcherTest, AFailureOfWhatIsAskedForIsToldAndNothingElseHangs) {
  const std::vector<ObjectRef> objects = StoreSmall(5);
  Must(store_->Delete("small-1"));
  for (const int parallel : {1, 4}) {
    ObjectFetcher fetcher(board_, Wanted(objects), Parallel(parallel), {}, nullptr);
    EXPECT_THAT(fetcher.Take(0, Progress::None()), Succeeds());
    EXPECT_THAT(fetcher.Take(1, Progress::None()), Fails(Code::kUnavailable, HasSubstr("small-1")));
  }
}

TEST_F(ObjectFetcherTest, StoppingDoesNotWaitForWhatIsNotThere) {
  const std::vector<ObjectRef> objects = StoreSmall(3);
  Must(store_->Delete("small-1"));
  ObjectFetcher fetcher(board_, Wanted(objects),
                        {.patience = {.limit = std::chrono::hours(10), .sleep = {}}, .parallel = 2}, {}, nullptr);
  Must(fetcher.Take(0, Progress::None()));
  store_->WaitForRead("small-1");
}

TEST_F(ObjectFetcherTest, ACacheKeepsWhatWasFetchedWithinItsBound) {
  const std::vector<ObjectRef> objects = StoreSmall(6);
  ObjectCache cache = Must(ObjectCache::Open(directory_ / "cache", 4100));
  const auto fetch_from = [&](size_t first) {
    ObjectFetcher fetcher(board_, Wanted({objects.begin() + static_cast<ptrdiff_t>(first), objects.end()}), Parallel(4),
                          {}, &cache);
    uint64_t transferred = 0;
    for (size_t i = 0; first + i < objects.size(); ++i) {
      const FetchedObject fetched = Must(fetcher.Take(i, Progress::None()));
      EXPECT_EQ(DigestAt(fetched.path), objects[first + i].sha256);
      transferred += fetched.transferred;
    }
    return transferred;
  };
  EXPECT_EQ(fetch_from(0), 6015u);
  uint64_t kept = 0;
  for (const ObjectRef& object : objects) kept += cache.Has(object) ? object.size : 0;
  EXPECT_LE(kept, 4100u);
  EXPECT_EQ(fetch_from(2), 0u) << "the last four are there";
  EXPECT_EQ(store_->bytes(), 6015u);
}

TEST_F(ObjectFetcherTest, ADamagedObjectInTheCacheIsFetchedAgain) {
  const ObjectRef object = StoreSmall(1)[0];
  ObjectCache cache = Must(ObjectCache::Open(directory_ / "cache", 4100));
  WriteText(cache.PathOf(object), std::string(object.size, 'x'));
  ObjectFetcher fetcher(board_, {{object, {}}}, Parallel(4), {}, &cache);
  EXPECT_EQ(DigestAt(Must(fetcher.Take(0, Progress::None())).path), object.sha256);
}

TEST_F(ObjectFetcherTest, ACacheThatIsTooSmallIsSaidSoAndKeepsNoRest) {
  const ObjectRef object = StoreSmall(1)[0];
  ObjectCache cache = Must(ObjectCache::Open(directory_ / "cache", 999));
  ObjectFetcher fetcher(board_, {{object, {}}}, Parallel(4), {}, &cache);
  EXPECT_THAT(fetcher.Take(0, Progress::None()), Fails(Code::kNoSpace, AllOf(HasSubstr("1000"), HasSubstr("999"))));
  EXPECT_THAT(NamesIn(directory_ / "cache"), ElementsAre("lock"));
  EXPECT_EQ(store_->bytes(), 0u);
}

TEST_F(ObjectFetcherTest, AnObjectThatIsWantedTwiceComesOnceAndIsHeldByBoth) {
  const ObjectRef twice = Store("twice", 1000), other = Store("other", 1000);
  // While it is read, the other threads go on past its second place.
  store_->before = [&](std::string_view key, uint64_t) {
    if (key == twice.key) store_->WaitForRead(other.key);
    return Status();
  };
  ObjectCache cache = Must(ObjectCache::Open(directory_ / "cache", kMiB));
  ObjectFetcher fetcher(board_, Wanted({twice, twice, other}), Parallel(4), {}, &cache);
  const FetchedObject first = Must(fetcher.Take(0, Progress::None()));
  const FetchedObject second = Must(fetcher.Take(1, Progress::None()));
  EXPECT_EQ(second.path, first.path);
  EXPECT_EQ(second.transferred, 0u);
  EXPECT_EQ(DigestAt(Must(fetcher.Take(2, Progress::None())).path), other.sha256);
  EXPECT_EQ(store_->reads(twice.key), 1);
}

TEST_F(ObjectFetcherTest, G14_SeveralReadersOfOneCacheFetchEachObjectOnce) {
  std::vector<ObjectRef> objects = StoreSmall(8);
  objects.push_back(Store("large", 9 * kMiB));
  uint64_t all = 0;
  for (const ObjectRef& object : objects) all += object.size;
  std::vector<std::thread> readers;
  std::atomic<uint64_t> transferred = 0;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      ObjectCache cache = Must(ObjectCache::Open(directory_ / "cache", 64 * kMiB));
      ObjectFetcher fetcher(board_, Wanted(objects), Parallel(2), {}, &cache);
      for (size_t i = 0; i < objects.size(); ++i) {
        const FetchedObject fetched = Must(fetcher.Take(i, Progress::None()));
        EXPECT_EQ(DigestAt(fetched.path), objects[i].sha256);
        transferred += fetched.transferred;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(store_->bytes(), all);
  EXPECT_EQ(transferred, all);
}

}  // namespace
}  // namespace skerry
