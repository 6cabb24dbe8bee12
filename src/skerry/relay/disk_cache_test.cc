#include "skerry/relay/disk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/results.h"

namespace skerry {
namespace {

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = Path(testing::TempDir()) /
                 (std::string("disk_cache_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<DiskCache> Open(uint64_t bound) { return Must(DiskCache::Open(directory_, bound)); }

  static Status Put(DiskCache& cache, const std::string& key, size_t size) {
    const Bytes bytes(size, std::byte{7});
    SKERRY_ASSIGN(const DiskCache::Place place, cache.MakeRoom(size));
    SKERRY_TRY(place.file.WriteAt(bytes, 0));
    return cache.Keep(*place.room, key, Sha256::Of(bytes));
  }

  Path directory_;
};

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoFirst) {
  const auto cache = Open(100);
  for (const char* key : {"a/1", "a/2", "b"}) Must(Put(*cache, key, 30));
  Must(cache->Find("a/1"));
  Must(Put(*cache, "c", 30));
  EXPECT_TRUE(cache->Has("a/1"));
  EXPECT_FALSE(cache->Has("a/2"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "objects" / "a" / "2"));
  EXPECT_EQ(cache->Look().bytes, 90u);
  EXPECT_EQ(cache->Look().evicted_bytes, 30u);
}

TEST_F(DiskCacheTest, WhatIsPinnedStays) {
  const auto cache = Open(100);
  cache->Pin({"a", "b"});
  for (const char* key : {"a", "b", "c"}) Must(Put(*cache, key, 30));
  EXPECT_THAT(cache->MakeRoom(50), Fails(Code::kNoSpace));
  Must(Put(*cache, "d", 40));
  EXPECT_TRUE(cache->Has("a") && cache->Has("b") && cache->Has("d"));
  EXPECT_FALSE(cache->Has("c"));
  EXPECT_EQ(cache->Look().pinned_bytes, 60u);
  cache->Pin({});
  Must(Put(*cache, "e", 100));
  EXPECT_EQ(cache->Look().objects, 1u);
}

TEST_F(DiskCacheTest, RoomThatWasNotUsedIsGivenBack) {
  const auto cache = Open(100);
  {
    const auto place = Must(cache->MakeRoom(80));
    EXPECT_THAT(cache->MakeRoom(30), Fails(Code::kNoSpace));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "filling"));
  Must(Put(*cache, "a", 100));
  EXPECT_THAT(cache->MakeRoom(101), Fails(Code::kNoSpace));
  EXPECT_TRUE(cache->Has("a")) << "nothing is removed for what can't be had";
}

TEST_F(DiskCacheTest, AfterARestartWholeObjectsAreThereAndNotChecked) {
  {
    const auto cache = Open(100);
    Must(Put(*cache, "a/b", 10));
    Must(Put(*cache, "c", 10));
    EXPECT_TRUE(Must(cache->Find("c")).checked);
    EXPECT_THAT(DiskCache::Open(directory_, 100), Fails(Code::kConflict));
  }
  std::filesystem::create_directories(directory_ / "filling" / "left");
  const auto cache = Open(15);
  EXPECT_EQ(cache->Look().objects, 1u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "filling"));
  const auto found = Must(cache->Find("c"));
  EXPECT_EQ(found.size, 10u);
  EXPECT_FALSE(found.checked);
}

TEST_F(DiskCacheTest, AFileOfAnotherSizeIsNotTheObject) {
  const auto cache = Open(100);
  Must(Put(*cache, "a", 10));
  std::filesystem::resize_file(directory_ / "objects" / "a", 9);
  EXPECT_THAT(cache->Find("a"), Fails(Code::kCorrupt));
  cache->Drop("a");
  EXPECT_THAT(cache->Find("a"), Fails(Code::kNotFound));
  EXPECT_EQ(cache->Look().bytes, 0u);
}

}  // namespace
}  // namespace skerry
