#include "skerry/pull/object_cache.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::hours;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ObjectCacheTest : public ::testing::Test {
 protected:
  struct TestClock : Clock {
    std::chrono::system_clock::time_point Now() const override { return now; }
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  };

  ObjectCache Open(uint64_t bound) { return Must(ObjectCache::Open(directory_.path(), bound, clock_)); }
  static ObjectRef Object(char name, uint64_t size) {
    return {.key = std::string(1, name), .uri = {}, .size = size, .sha256 = Sha256::Of(std::string(size, name))};
  }
  // Puts an object there, used just now; the next one is used later.
  ObjectRef Put(const ObjectCache& cache, char name, uint64_t size) {
    const ObjectRef object = Object(name, size);
    WriteText(cache.PathOf(object), std::string(size, name));
    cache.Touch(object);
    clock_.now += hours(1);
    return object;
  }
  std::string Kept(const ObjectCache& cache, const std::vector<ObjectRef>& objects) {
    std::string kept;
    for (const ObjectRef& object : objects) kept += cache.Has(object) ? object.key : "";
    return kept;
  }

  TestClock clock_;
  TempDir directory_;
};

TEST_F(ObjectCacheTest, TheLeastRecentlyUsedGoFirst) {
  const ObjectCache cache = Open(100);
  const std::vector<ObjectRef> all = {Put(cache, 'a', 30), Put(cache, 'b', 30), Put(cache, 'c', 30)};
  cache.Touch(all[0]);
  Must(cache.MakeRoom(Object('n', 10), 0));
  EXPECT_EQ(Kept(cache, all), "abc") << "there was room";
  Must(cache.MakeRoom(Object('n', 11), 0));
  EXPECT_EQ(Kept(cache, all), "ac") << "b was used longest ago";
  Must(cache.MakeRoom(Object('n', 100), 0));
  EXPECT_EQ(Kept(cache, all), "");
}

TEST_F(ObjectCacheTest, WhatIsInUseStays) {
  const ObjectCache cache = Open(100);
  const std::vector<ObjectRef> all = {Put(cache, 'a', 30), Put(cache, 'b', 30), Put(cache, 'c', 30)};
  {
    const PinnedFile pin = Must(PinnedFile::Share(cache.PathOf(all[0])));
    Must(cache.MakeRoom(Object('n', 40), 0));
    EXPECT_EQ(Kept(cache, all), "ac");
    EXPECT_THAT(cache.MakeRoom(Object('n', 71), 0),
                Fails(Code::kNoSpace, AllOf(HasSubstr("71 bytes"), HasSubstr("100 bytes"), HasSubstr("30 of them"))));
    EXPECT_THAT(cache.CheckRoom(71), Fails(Code::kNoSpace));
    EXPECT_EQ(Kept(cache, all), "ac") << "nothing is removed in vain";
  }
  Must(cache.MakeRoom(Object('n', 71), 0));
  EXPECT_EQ(Kept(cache, all), "");
}

TEST_F(ObjectCacheTest, AnObjectThatIsLargerThanTheBoundIsRefusedWithBothNumbers) {
  const ObjectCache cache = Open(100);
  const ObjectRef a = Put(cache, 'a', 30);
  EXPECT_THAT(cache.CheckRoom(101), Fails(Code::kNoSpace, AllOf(HasSubstr("101"), HasSubstr("100"))));
  EXPECT_THAT(cache.CheckRoom(100), Succeeds());
  EXPECT_THAT(cache.CheckRoom(UINT64_MAX), Fails(Code::kNoSpace));
  EXPECT_TRUE(cache.Has(a));
}

TEST_F(ObjectCacheTest, ADiskThatIsTooSmallIsRefusedWithBothNumbers) {
  const ObjectCache cache = Open(UINT64_MAX);
  const uint64_t free = Must(FreeSpace(directory_.path()));
  EXPECT_THAT(cache.CheckRoom(free + (1ull << 50)),
              Fails(Code::kNoSpace, AllOf(HasSubstr(std::to_string(free + (1ull << 50))), HasSubstr("are free"))));
}

TEST_F(ObjectCacheTest, WhatIsBeingFetchedCountsAndAbandonedPartsMakeRoom) {
  const ObjectCache cache = Open(100);
  const Path dead = cache.PathOf(Object('d', 60)).string() + ".part";
  const Path mine = cache.PathOf(Object('m', 40)).string() + ".part";
  WriteText(dead, std::string(60, 'd'));
  WriteText(dead.string() + ".ranges", "");
  {
    const PinnedFile alive = Must(PinnedFile::Own(dead));
    EXPECT_THAT(cache.MakeRoom(Object('m', 41), 0), Fails(Code::kNoSpace));
    Must(cache.MakeRoom(Object('m', 40), 0));
  }
  WriteText(mine, std::string(40, 'm'));
  Must(cache.MakeRoom(Object('m', 90), 40));
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_FALSE(std::filesystem::exists(dead.string() + ".ranges"));
  EXPECT_TRUE(std::filesystem::exists(mine)) << "it is what the room is for";
}

TEST_F(ObjectCacheTest, OpeningSweepsStalePartsAndWhatIsOverTheBound) {
  ObjectCache cache = Open(100);
  const std::vector<ObjectRef> all = {Put(cache, 'a', 30), Put(cache, 'b', 30)};
  const Path old = cache.PathOf(Object('o', 9)).string() + ".part",
             young = cache.PathOf(Object('y', 9)).string() + ".part";
  WriteText(old, "x");
  WriteText(old.string() + ".ranges", "x");
  std::filesystem::last_write_time(old, std::filesystem::file_time_type::clock::now() - hours(25));
  clock_.now = std::chrono::system_clock::now();
  WriteText(young, "x");
  cache = Open(40);
  EXPECT_EQ(Kept(cache, all), "b");
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_FALSE(std::filesystem::exists(old.string() + ".ranges"));
  EXPECT_TRUE(std::filesystem::exists(young));
}

TEST_F(ObjectCacheTest, AnObjectOfAProcessThatWasKilledIsNoLongerInUse) {
  const ObjectCache cache = Open(100);
  const ObjectRef a = Put(cache, 'a', 90);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Result<PinnedFile> pin = PinnedFile::Share(cache.PathOf(a));
    (void)!::write(ready[1], pin ? "y" : "n", 1);
    ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_THAT(cache.MakeRoom(Object('n', 50), 0), Fails(Code::kNoSpace, HasSubstr("90 of them in use")));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(cache.MakeRoom(Object('n', 50), 0), Succeeds());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(PinnedFile, WhoWaitedForAFileThatWasRenamedGetsTheOneThatIsThereNow) {
  const TempDir directory;
  const Path path = directory / "f";
  PinnedFile first = Must(PinnedFile::Own(path));
  Must(Rename(path, directory / "g"));
  const PinnedFile second = Must(PinnedFile::Own(path));
  EXPECT_TRUE(IsPinned(path));
  EXPECT_TRUE(IsPinned(directory / "g"));
  EXPECT_THAT(first.Downgrade(path), Fails(Code::kNotFound));
  EXPECT_THAT(PinnedFile::Share(directory / "nothing"), Fails(Code::kNotFound));
}

}  // namespace
}  // namespace skerry
