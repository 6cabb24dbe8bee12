// What a long run leaves on the board: skips, anchors, parts, and what they are worth to a reader that joins late.
#include <rapidcheck/gtest.h>

#include "skerry/board/keys.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Counts the requests that a publisher sends.
class CountingStore : public MemoryStore {
 public:
  Result<Object> Get(std::string_view key, uint64_t limit) override {
    return Count("get", key), MemoryStore::Get(key, limit);
  }
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override {
    return Count("range", key), MemoryStore::ReadRange(key, offset, out);
  }
  Result<ObjectInfo> Stat(std::string_view key) override { return Count("stat", key), MemoryStore::Stat(key); }
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override {
    return Count("put", key), MemoryStore::PutIfAbsent(key, source);
  }
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    return Count("swap", key), MemoryStore::CompareAndSwap(key, expected, bytes);
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

 private:
  void Count(std::string_view what, std::string_view key) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(fmt::format("{} {}", what, key));
  }
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

class LongRunTest : public PublishTestBase {
 protected:
  LongRunTest() {
    board_ = Must(Board::Create(counting_));
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
  }
  void PublishUpTo(uint64_t version, PublishOptions options = {}) {
    while (HeadOf(run_).number() < version) {
      Step(0.002);
      last_ = Must(Publish(run_, options));
      ASSERT_THAT(last_.warning, IsEmpty());
    }
  }
  CatchUpReceipt Join(uint64_t version) {
    std::filesystem::remove_all(reader_);
    const CatchUpReceipt receipt = Must(CatchUp(run_, reader_, version));
    EXPECT_EQ(FilesOf(reader_), versions_[run_][version]) << version;
    return receipt;
  }
  Manifest At(uint64_t version) { return Must(board_.ReadManifest(run_, Version(version))); }

  const std::shared_ptr<CountingStore> counting_ = std::make_shared<CountingStore>();
  const Path reader_ = directory_ / "reader";
  PublishReceipt last_;
};

TEST_F(LongRunTest, SendsFiveRequestsForAVersion) {
  PublishUpTo(2);
  counting_->Take();
  Step();
  const PublishReceipt receipt = Must(Publish(run_));
  std::vector<std::string> requests = counting_->Take();
  EXPECT_THAT(requests, SizeIs(5)) << fmt::format("{}", fmt::join(requests, "\n"));
  const auto key_of = [](const std::string& request) { return request.substr(request.find(' ') + 1); };
  std::sort(requests.begin(), requests.end());
  EXPECT_EQ(key_of(requests[0]), ManifestKey(run_, Version(2)));
  EXPECT_EQ(requests[4], "swap " + HeadKey(run_));
  EXPECT_EQ(receipt.version, Version(3));
  EXPECT_FALSE(Must(Publish(run_)).published);
  EXPECT_THAT(counting_->Take(), SizeIs(1)) << "that nothing changed is worth a look at the head";
}

TEST_F(LongRunTest, SkipsLeadOverEightAndSixtyFourVersions) {
  PublishUpTo(65, {.anchor_tail = 0});
  for (uint64_t version = 1; version <= 65; ++version) {
    const Manifest manifest = At(version);
    std::vector<uint64_t> skips;
    for (const Edge& edge : manifest.edges) {
      if (edge.kind == "skip") skips.push_back(version - edge.from.number());
    }
    if (version == 64) {
      EXPECT_THAT(skips, ::testing::ElementsAre(8, 64));
    } else if (version % 8 == 0) {
      EXPECT_THAT(skips, ::testing::ElementsAre(8)) << version;
    } else {
      EXPECT_THAT(skips, IsEmpty()) << version;
    }
  }
  EXPECT_EQ(Join(65).patches, 2u) << "0 to 64, 64 to 65";
  EXPECT_EQ(Join(64).patches, 1u);
  EXPECT_EQ(Join(25).patches, 4u);
  for (const uint64_t version : {8, 9, 16, 56, 63}) Join(version);
  // Followed in place, from the middle.
  std::filesystem::remove_all(reader_);
  Must(CatchUp(run_, reader_, 5));
  EXPECT_EQ(Must(CatchUp(run_, reader_, 20)).patches, 3u + 1 + 4);
  EXPECT_EQ(FilesOf(reader_), versions_[run_][20]);
}

TEST_F(LongRunTest, ASkipCarriesTheSideFilesOfItsVersion) {
  model_.side_files["early.json"] = "there at first";
  PublishUpTo(9, {.anchor_tail = 0});
  model_.side_files.erase("early.json");
  PublishUpTo(12, {.anchor_tail = 0});
  model_.side_files["late.json"] = "new";
  PublishUpTo(16, {.anchor_tail = 0});
  EXPECT_EQ(Join(16).patches, 2u);
}

TEST_F(LongRunTest, ASkipIsLeftOutWhereTheFilesWereCutAnew) {
  PublishUpTo(4, {.anchor_tail = 0});
  form_.shards = 3;
  PublishUpTo(8, {.anchor_tail = 0});
  EXPECT_THAT(At(8).edges, SizeIs(1));
  PublishUpTo(16, {.anchor_tail = 0});
  EXPECT_THAT(At(16).edges, SizeIs(2));
  EXPECT_EQ(Join(16).patches, 9u);
}

TEST_F(LongRunTest, UndosOfAVersionThatWasLostDoNotSpoilTheNextSkip) {
  PublishUpTo(3, {.anchor_tail = 0});
  // Another publisher makes version 4; this one goes on behind it.
  Step();
  Must(Publish(run_, {.state_directory = directory_ / "b"}));
  PublishUpTo(16, {.take_over = true, .anchor_tail = 0});
  EXPECT_THAT(At(8).edges, SizeIs(1)) << "the undo of version 4 is with the other publisher";
  EXPECT_THAT(At(16).edges, SizeIs(2));
  Join(16);
}

TEST_F(LongRunTest, ALateJoinerFetchesAnAnchorAndLittleMore) {
  PublishUpTo(40);
  const Manifest head = At(40);
  ASSERT_FALSE(head.anchors.empty());
  const AnchorRef anchor = head.anchors[0];
  EXPECT_EQ(anchor.version.number() % 8, 0u);
  EXPECT_GE(anchor.version, Version(16));
  EXPECT_LT(anchor.bytes, head.stats.checkpoint_bytes);
  const CatchUpReceipt receipt = Join(40);
  EXPECT_LE(receipt.bytes_fetched, anchor.bytes + anchor.bytes / 4);
  for (const uint64_t version : {7, 17, 24, 39}) Join(version);
  EXPECT_LE(At(40).anchors.size(), 4u);
}

TEST_F(LongRunTest, APackedAnchorIsBuiltAfterAFailureAnywhere) {
  PublishUpTo(17);
  ASSERT_GT(At(17).anchors[0].version, Version(0));
  for (const std::string_view failpoint : {"pull.fetched", "pull.part_filled", "apply.journal_committed"}) {
    SCOPED_TRACE(failpoint);
    std::filesystem::remove_all(reader_);
    {
      const WithFailpoints with(fmt::format("{}:error", failpoint));
      EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kIo));
    }
    Must(CatchUp(run_, reader_));
    EXPECT_EQ(FilesOf(reader_), versions_[run_][17]) << failpoint;
  }
}

TEST_F(LongRunTest, AnAnchorThatCouldNotBeFinishedIsGoneOnWith) {
  const PublishOptions options{.anchor_tail = 1e-9};
  PublishUpTo(7, options);
  Step();
  {
    const WithFailpoints with("anchor.part_stored:error");
    const PublishReceipt receipt = Must(Publish(run_, options));
    EXPECT_TRUE(receipt.published);
    EXPECT_THAT(receipt.warning, HasSubstr("anchor.part_stored"));
  }
  {
    const WithFailpoints with("anchor.document_stored:error");
    EXPECT_THAT(Publish(run_, options), Fails(Code::kIo)) << "the same checkpoint again finishes the anchor";
  }
  const PublishReceipt again = Must(Publish(run_, options));
  EXPECT_FALSE(again.published);
  EXPECT_GT(again.anchor_bytes, 0u);
  PublishUpTo(9, options);
  EXPECT_EQ(At(9).anchors[0].version, Version(8));
  Join(9);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "publisher-grpo-1" / "anchor"));
}

TEST_F(LongRunTest, AVersionInPartsIsTheSameVersion) {
  PublishUpTo(3, {.parts = 3});
  EXPECT_THAT(At(3).edges[0].parts, SizeIs(::testing::Ge(2u)));
  EXPECT_EQ(last_.parts, At(3).edges[0].parts.size());
  PublishUpTo(16, {.parts = 4, .anchor_tail = 0});
  EXPECT_THAT(At(16).edges, SizeIs(2)) << "skips are made of parts as well";
  for (const uint64_t version : {1, 2, 3, 9, 16}) Join(version);
  std::filesystem::remove_all(reader_);
  for (uint64_t version = 0; version <= 16; ++version) {
    Must(CatchUp(run_, reader_, version));
    EXPECT_EQ(FilesOf(reader_), versions_[run_][version]) << version;
  }
}

TEST_F(LongRunTest, ANoteOfAHeadThatMovedIsDroppedWithTheConflict) {
  PublishUpTo(2);
  Step();
  Must(Publish(run_, {.state_directory = directory_ / "b"}));
  Step();
  EXPECT_THAT(Publish(run_), Fails(Code::kConflict, HasSubstr("version 3")));
  EXPECT_THAT(Publish(run_), Fails(Code::kConflict, HasSubstr("took over")));
  PublishUpTo(5, {.take_over = true});
  Join(5);
}

TEST_F(LongRunTest, AReaderNeverFollowsAHeadThatWentBack) {
  PublishUpTo(3);
  Must(CatchUp(run_, reader_));
  // A replica that lags shows an older head.
  const Bytes head = Must(counting_->Get(HeadKey(run_), kMaxHeadBytes)).bytes;
  PublishUpTo(4);
  Must(CatchUp(run_, reader_));
  Must(counting_->Delete(HeadKey(run_)));
  Must(counting_->CompareAndSwap(HeadKey(run_), std::nullopt, head));
  EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kUnavailable, HasSubstr("lags behind")));
  EXPECT_EQ(FilesOf(reader_), versions_[run_][4]);
}

}  // namespace
}  // namespace skerry
