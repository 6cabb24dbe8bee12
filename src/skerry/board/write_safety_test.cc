// The verdict about a store's conditional writes on a board: recorded when it is made, and what publishers may do then.
#include "skerry/board/write_safety.h"

#include <gtest/gtest.h>

#include "skerry/board/board.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/memory_store.h"

namespace skerry {
namespace {

TEST(WriteSafety, IsFoundByItsName) {
  for (const WriteSafety safety :
       {WriteSafety::kFull, WriteSafety::kCreateOnly, WriteSafety::kNone, WriteSafety::kUnsafe}) {
    EXPECT_EQ(WriteSafetyFromName(NameOf(safety)), safety);
    EXPECT_FALSE(WhatFollows(safety).empty());
  }
  EXPECT_EQ(NameOf(WriteSafety::kCreateOnly), "create-only");
  EXPECT_EQ(WriteSafetyFromName("Full"), std::nullopt);
}

TEST(WriteSafety, IsInBoardJsonWhereItIsKnown) {
  EXPECT_EQ(ToString(SerializeBoardInfo({.id = "b"}).value()), R"({"format":1,"id":"b"})");
  const BoardInfo info{.id = "b", .writes = WriteSafety::kUnsafe};
  EXPECT_EQ(ToString(SerializeBoardInfo(info).value()), R"({"format":1,"id":"b","writes":"unsafe"})");
  EXPECT_EQ(ParseBoardInfo(SerializeBoardInfo(info).value()).value(), info);
  EXPECT_EQ(CodeOf(ParseBoardInfo(AsBytes(R"({"format":1,"id":"b","writes":"maybe"})"))), "corrupt");
  EXPECT_EQ(CodeOf(ParseBoardInfo(AsBytes(R"({"format":1,"id":"b","writes":true})"))), "corrupt");
}

TEST(WriteSafety, IsFoundOutWhenABoardIsMade) {
  const auto store = std::make_shared<MemoryStore>();
  EXPECT_EQ(Board::Create(store).value().writes(), WriteSafety::kFull);
  EXPECT_EQ(Board::Open(store).value().writes(), WriteSafety::kFull);
  EXPECT_EQ(store->List("").value(), std::vector<std::string>{"board.json"});
}

// Swaps overwrite whatever is there, and may lose to a writer that comes right after them.
class CreateOnlyStore : public MemoryStore {
 public:
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    if (expected) SKERRY_TRY(Delete(key));
    Result<Generation> written = MemoryStore::CompareAndSwap(key, std::nullopt, bytes);
    if (expected && !overwritten_by.empty()) {
      SKERRY_TRY(Delete(key));
      (void)MemoryStore::CompareAndSwap(key, std::nullopt, std::exchange(overwritten_by, {}));
    }
    return written;
  }
  Bytes overwritten_by;
};

class UnsafeBoardTest : public testing::Test {
 protected:
  Result<Generation> Move(std::string_view publisher, uint64_t epoch) {
    const Result<HeadAt> head = board_.ReadHead(run_);
    std::optional<SettledHead> current;
    if (head) current = board_.Settle(*head).value();
    const Version version = head ? head->head.version.Next() : Version(0);
    const StagedManifest staged =
        board_
            .StageManifest(
                SampleManifest(run_, version, head ? std::optional(head->head.manifest.sha256) : std::nullopt))
            .value();
    last_ = SampleHead(staged, head ? head->head.sequence + 1 : 1, publisher, epoch);
    return board_.MoveHead(current, last_, staged);
  }

  const RunId run_ = RunNamed("r");
  std::shared_ptr<CreateOnlyStore> store_ = std::make_shared<CreateOnlyStore>();
  Board board_ = Board::Create(store_).value();
  Head last_;
};

TEST_F(UnsafeBoardTest, LetsTheFirstPublisherClaimTheRunAndNobodyAfterIt) {
  ASSERT_EQ(board_.writes(), WriteSafety::kCreateOnly);
  ASSERT_EQ(CodeOf(Move("init", 1)), "ok");
  ASSERT_EQ(CodeOf(Move("publisher-a", 2)), "ok") << "init owns nothing: the first publisher takes the run";
  const Result<Generation> second = Move("publisher-b", 3);
  EXPECT_EQ(CodeOf(second), "conflict");
  EXPECT_NE(MessageOf(second).find("create-only"), std::string::npos) << MessageOf(second);
  EXPECT_NE(MessageOf(second).find("publisher-b"), std::string::npos);
  EXPECT_EQ(CodeOf(Move("publisher-a", 2)), "ok") << "the owner goes on";
  EXPECT_EQ(board_.ReadHead(run_)->head.version, Version(2));
}

TEST_F(UnsafeBoardTest, FindsByTheNonceThatAnotherWriterCameRightAfter) {
  ASSERT_EQ(CodeOf(Move("init", 1)), "ok");
  ASSERT_EQ(CodeOf(Move("publisher-a", 2)), "ok");
  Head other = last_;
  other.publisher = "publisher-b";
  other.nonce = "another-nonce";
  store_->overwritten_by = SerializeHead(other).value();
  const Result<Generation> moved = Move("publisher-a", 2);
  EXPECT_EQ(CodeOf(moved), "conflict");
  EXPECT_NE(MessageOf(moved).find("publisher-b"), std::string::npos) << MessageOf(moved);
}

TEST_F(UnsafeBoardTest, KeepsToTheOldRulesWhereNobodyProbed) {
  ASSERT_TRUE(store_->Delete("board.json"));
  ASSERT_TRUE(store_->PutIfAbsent("board.json", MemorySource(R"({"format":1,"id":"b"})")));
  board_ = Board::Open(store_).value();
  EXPECT_EQ(board_.writes(), std::nullopt);
  ASSERT_EQ(CodeOf(Move("init", 1)), "ok");
  ASSERT_EQ(CodeOf(Move("publisher-a", 2)), "ok");
  EXPECT_EQ(CodeOf(Move("publisher-b", 3)), "ok");
}

}  // namespace
}  // namespace skerry
