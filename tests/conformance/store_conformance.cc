// The conformance suite over any store that a URL names, for servers that tests/ starts:
//
//   SKERRY_TEST_STORE="s3://bucket/prefix?endpoint=http://127.0.0.1:8333" SKERRY_TEST_RACE="4 x 20" store_conformance
//
// Each test works below a new prefix. SKERRY_TEST_RACE: writers and rounds of the compare-and-swap race.
// SKERRY_TEST_DEVIATIONS: what the server is known to do otherwise, parted by commas:
//   upload-times  it does not tell when an upload began (moto says 2010)
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "skerry/base/parallel.h"
#include "skerry/board/names.h"
#include "skerry/board/s3_store.h"
#include "skerry/board/store_conformance.h"
#include "skerry/board/store_url.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The store's URL with a new folder at the end of its path.
std::string FreshUrl() {
  const std::string url = Variable("SKERRY_TEST_STORE");
  const size_t question = std::min(url.find('?'), url.size());
  return url.substr(0, question) + "/" + RandomToken().substr(0, 16) + url.substr(question);
}

std::pair<int, int> RaceSize() {
  int threads = 4, rounds = 20;
  const std::string text = Variable("SKERRY_TEST_RACE");
  if (!text.empty() && (std::sscanf(text.c_str(), "%d x %d", &threads, &rounds) != 2 || threads < 1 || rounds < 1)) {
    std::fprintf(stderr, "SKERRY_TEST_RACE=\"%s\": it has the form \"threads x rounds\"\n", text.c_str());
    std::exit(2);
  }
  return {threads, rounds};
}

struct GivenBackend {
  std::shared_ptr<Store> store = Must(OpenStore(FreshUrl(), /*create=*/true));
  static inline const int kRaceThreads = RaceSize().first;
  static inline const int kRaceRounds = RaceSize().second;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Given, StoreConformance, GivenBackend);

// What only buckets have. Parts of 5 MiB are the smallest that S3 takes.
class Uploads : public testing::Test {
 protected:
  Uploads() {
    if (!Variable("SKERRY_TEST_STORE").starts_with("s3://")) return;
    S3Place place = Must(ParseS3Url(FreshUrl(), ProcessEnvironment()));
    place.options.part_bytes = 5 << 20;
    prefix_ = place.prefix;
    client_ = Must(S3Client::Make(place.options));
    store_ = Must(S3Store::Open(std::move(place.options), prefix_));
  }
  void SetUp() override {
    if (!store_) GTEST_SKIP() << "SKERRY_TEST_STORE is no bucket";
  }
  static std::string Pattern(size_t size) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
    return bytes;
  }

  std::string prefix_;
  std::shared_ptr<S3Client> client_;
  std::shared_ptr<S3Store> store_;
};

TEST_F(Uploads, KeepObjectsOfManyPartsWhole) {
  std::string big = Pattern((17 << 20) + 5);
  ASSERT_THAT(store_->PutIfAbsent("a b/ä+1", MemorySource(big)), Succeeds());
  EXPECT_TRUE(AsText(Must(store_->Get("a b/ä+1", 64 << 20)).bytes) == big);
  Bytes middle(11 << 20);
  Must(store_->ReadRange("a b/ä+1", 3 << 20, middle));
  EXPECT_TRUE(AsText(middle) == std::string_view(big).substr(3 << 20, 11 << 20));
  EXPECT_THAT(store_->PutIfAbsent("a b/ä+1", MemorySource(big)), Succeeds()) << "the same bytes again";
  big.back() ^= 1;
  EXPECT_THAT(store_->PutIfAbsent("a b/ä+1", MemorySource(big)), Fails(Code::kConflict));
  big.pop_back();
  EXPECT_THAT(store_->PutIfAbsent("a b/ä+1", MemorySource(big)), Fails(Code::kConflict));
}

TEST_F(Uploads, AreReadAndWrittenByManyThreads) {
  const std::string big = Pattern(6 << 20);
  ASSERT_THAT(store_->PutIfAbsent("shared", MemorySource(big)), Succeeds());
  Must(ParallelFor(64, 16, [&](size_t i) -> Status {
    const std::string own = Pattern(1000 + i);
    SKERRY_TRY(store_->PutIfAbsent(fmt::format("own/{}", i), MemorySource(own)));
    Bytes part(50'000 + i);
    SKERRY_TRY(store_->ReadRange("shared", i * 90'001, part));
    if (AsText(part) != std::string_view(big).substr(i * 90'001, part.size()))
      return Fail(Code::kCorrupt, "part {}", i);
    SKERRY_ASSIGN(const Object read, store_->Get(fmt::format("own/{}", i), 10'000));
    return AsText(read.bytes) == own ? Status() : Fail(Code::kCorrupt, "object {}", i);
  }));
}

TEST_F(Uploads, LeaveNothingWhenTheyFail) {
  struct Broken : ByteSource {
    uint64_t size() const override { return 12 << 20; }
    Status Read(uint64_t offset, MutableByteSpan out) const override {
      if (offset + out.size() > 7 << 20) return Fail(Code::kIo, "the disk is gone");
      std::fill(out.begin(), out.end(), std::byte{1});
      return {};
    }
  };
  EXPECT_THAT(store_->PutIfAbsent("k", Broken()), Fails(Code::kIo));
  EXPECT_EQ(Must(store_->List("")), std::vector<std::string>{});
  EXPECT_EQ(Must(store_->SweepLeftovers(std::chrono::seconds(0))), 0u);
}

TEST_F(Uploads, AreSweptOnceTheyAreOld) {
  if (Variable("SKERRY_TEST_DEVIATIONS").find("upload-times") != std::string::npos) GTEST_SKIP() << "upload-times";
  ASSERT_THAT(store_->PutIfAbsent("done", MemorySource("x")), Succeeds());
  Must(client_->CreateUpload(prefix_ + "/left/over"));
  EXPECT_EQ(Must(store_->SweepLeftovers(std::chrono::hours(1))), 0u);
  // A server's clock counts in whole seconds and may be a little ahead of ours.
  EXPECT_EQ(Must(store_->SweepLeftovers(std::chrono::seconds(-5))), 1u);
  EXPECT_EQ(Must(store_->SweepLeftovers(std::chrono::seconds(-5))), 0u);
  EXPECT_EQ(Must(store_->List("")), std::vector<std::string>{"done"});
}

TEST_F(Uploads, AreNoHindranceToListsOfManyPages) {
  constexpr int kObjects = 1100;  // of which a page holds 1000
  std::vector<std::string> keys;
  for (int i = 0; i < kObjects; ++i) keys.push_back(fmt::format("many/a+b c=%2F&{:05}", i));
  Must(ParallelFor(keys.size(), 8, [&](size_t i) { return store_->PutIfAbsent(keys[i], MemorySource("x")); }));
  EXPECT_EQ(Must(store_->List("many/")), keys);
  EXPECT_EQ(Must(store_->ListNames("")), std::vector<std::string>{"many"});
}

}  // namespace
}  // namespace skerry

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (skerry::Variable("SKERRY_TEST_STORE").empty()) {
    std::fprintf(stderr, "SKERRY_TEST_STORE names no store\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}
