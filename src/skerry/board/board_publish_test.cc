// Moving the head: who may, what a lost race and a lost reply look like, and what crashes leave for the next publisher.
#include <gtest/gtest.h>

#include <functional>

#include "skerry/base/failpoint.h"
#include "skerry/board/board.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/file_store.h"
#include "skerry/board/memory_store.h"

namespace skerry {
namespace {

// A store whose next compare-and-swap goes wrong in a chosen way, and whose next reads fail if asked to.
class UnreliableStore : public MemoryStore {
 public:
  enum class Trouble { kNone, kReplyLost, kRequestLost, kOtherWins, kUnreadableAfterwards, kVanishes };

  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    const Trouble now = std::exchange(trouble, Trouble::kNone);
    switch (now) {
      case Trouble::kNone: return MemoryStore::CompareAndSwap(key, expected, bytes);
      case Trouble::kRequestLost: break;
      case Trouble::kReplyLost:
        (void)MemoryStore::CompareAndSwap(key, expected, bytes);
        if (auto then = std::exchange(after_trouble, nullptr)) then();
        break;
      case Trouble::kOtherWins: (void)MemoryStore::CompareAndSwap(key, expected, others_bytes); break;
      case Trouble::kUnreadableAfterwards:
        (void)MemoryStore::CompareAndSwap(key, expected, bytes);
        reads_fail = true;
        break;
      case Trouble::kVanishes: (void)Delete(key); break;
    }
    return Fail(error_code, "the connection was closed");
  }
  Result<Object> Get(std::string_view key, uint64_t limit) override {
    if (reads_fail) return Fail(Code::kUnavailable, "no route to the store");
    return MemoryStore::Get(key, limit);
  }

  Trouble trouble = Trouble::kNone;
  std::function<void()> after_trouble;
  Code error_code = Code::kUnavailable;
  Bytes others_bytes;
  bool reads_fail = false;
};
using Trouble = UnreliableStore::Trouble;

class MoveHeadTest : public testing::Test {
 protected:
  MoveHeadTest() { EXPECT_TRUE(Move(Next("publisher-a"))); }
  ~MoveHeadTest() override { SetFailpoints(""); }

  HeadAt Current() { return board_.ReadHead(run_).value(); }
  // A staged head that may follow the current one.
  Head Next(std::string_view publisher, uint64_t epoch = 1) {
    const Result<HeadAt> head = board_.ReadHead(run_);
    if (!head) return Staged(SampleManifest(run_, Version(0), std::nullopt), 1, publisher, epoch);
    return Staged(SampleManifest(run_, head->head.version.Next(), head->head.manifest.sha256), head->head.sequence + 1,
                  publisher, epoch);
  }
  Head Staged(const Manifest& manifest, uint64_t sequence, std::string_view publisher, uint64_t epoch) {
    staged_.push_back(board_.StageManifest(manifest).value());
    return SampleHead(staged_.back(), sequence, publisher, epoch);
  }
  Result<Generation> MoveFrom(const std::optional<SettledHead>& current, const Head& next) {
    for (const StagedManifest& staged : staged_) {
      if (staged.ref() == next.manifest) return board_.MoveHead(current, next, staged);
    }
    return board_.MoveHead(current, next, staged_.back());
  }
  Result<Generation> Move(const Head& next) { return MoveFrom(SettledNow(board_, run_), next); }

  const RunId run_ = RunNamed("grpo-1");
  std::shared_ptr<UnreliableStore> store_ = std::make_shared<UnreliableStore>();
  Board board_ = Board::Create(store_).value();
  std::vector<StagedManifest> staged_;
};

TEST_F(MoveHeadTest, GoesForwardOneVersionAtATime) {
  EXPECT_EQ(Current().head.version, Version(0));
  const Head next = Next("publisher-a");
  const Result<Generation> moved = Move(next);
  ASSERT_TRUE(moved.has_value()) << MessageOf(moved);
  EXPECT_EQ(Current().head, next);
  EXPECT_EQ(Current().generation, *moved);
}

TEST_F(MoveHeadTest, RefusesToBeginAnywhereButAtVersionZero) {
  const RunId other = RunNamed("other");
  const Manifest base = SampleManifest(other, Version(0), std::nullopt);
  EXPECT_EQ(CodeOf(MoveFrom(std::nullopt, Staged(base, 2, "p", 1))), "invalid");
  const Manifest first = SampleManifest(other, Version(1), Sha256::Of("x"));
  EXPECT_EQ(CodeOf(MoveFrom(std::nullopt, Staged(first, 1, "p", 1))), "invalid");
  EXPECT_EQ(CodeOf(MoveFrom(std::nullopt, Staged(base, 1, "p", 1))), "ok");
}

TEST_F(MoveHeadTest, RefusesGapsRepeatsAndSteppingBack) {
  ASSERT_TRUE(Move(Next("publisher-a")));
  ASSERT_TRUE(Move(Next("publisher-a")));
  const Head now = Current().head;
  for (const uint64_t version : {0, 1, 2, 4}) {
    std::optional<Digest> parent;
    if (version > 0) parent = now.manifest.sha256;
    const Head next = Staged(SampleManifest(run_, Version(version), parent), now.sequence + 1, "publisher-a", 1);
    EXPECT_EQ(CodeOf(Move(next)), "invalid") << version;
  }
  EXPECT_EQ(Current().head, now);
}

TEST_F(MoveHeadTest, RequiresTheNextSequenceAndAFreshNonce) {
  Head next = Next("publisher-a");
  next.sequence += 1;
  EXPECT_EQ(CodeOf(Move(next)), "invalid");
  next.sequence -= 2;
  EXPECT_EQ(CodeOf(Move(next)), "invalid");
  next = Next("publisher-a");
  next.nonce = Current().head.nonce;
  EXPECT_EQ(CodeOf(Move(next)), "invalid");
}

TEST_F(MoveHeadTest, RequiresTheManifestToBeTheOneThatItNames) {
  Head next = Next("publisher-a");
  next.model = Sha256::Of("another model");
  EXPECT_EQ(CodeOf(Move(next)), "mismatch");
  next = Next("publisher-a");
  next.manifest.sha256 = Sha256::Of("x");
  EXPECT_EQ(CodeOf(Move(next)), "invalid");
  const Manifest orphan = SampleManifest(run_, Version(1), Sha256::Of("not the parent"));
  EXPECT_EQ(CodeOf(Move(Staged(orphan, 2, "publisher-a", 1))), "mismatch");
  EXPECT_EQ(Current().head.version, Version(0));
}

TEST_F(MoveHeadTest, LosesTheRaceAndNamesTheWinner) {
  const std::optional<SettledHead> stale = SettledNow(board_, run_);
  const Head loser = Next("publisher-b", 2);
  ASSERT_TRUE(Move(Next("publisher-a")));
  const Result<Generation> lost = MoveFrom(stale, loser);
  EXPECT_EQ(CodeOf(lost), "conflict");
  for (const char* part : {"version 1 (epoch 1, publisher publisher-a", "version 1 (epoch 2, publisher publisher-b"}) {
    EXPECT_NE(MessageOf(lost).find(part), std::string::npos) << MessageOf(lost);
  }
  EXPECT_EQ(Current().head.publisher, "publisher-a");
  EXPECT_EQ(CodeOf(MoveFrom(std::nullopt, loser)), "invalid") << "version 1 is no beginning";
}

TEST_F(MoveHeadTest, LetsAnotherPublisherTakeOverByRaisingTheEpochAndFencesTheOldOne) {
  EXPECT_EQ(CodeOf(Move(Next("publisher-b", 1))), "conflict") << "the epoch has an owner";
  const Head old_plan = Next("publisher-a", 1);
  const std::optional<SettledHead> old_head = SettledNow(board_, run_);
  ASSERT_TRUE(Move(Next("publisher-b", 2)));
  EXPECT_EQ(CodeOf(MoveFrom(old_head, old_plan)), "conflict");
  EXPECT_EQ(CodeOf(Move(Next("publisher-a", 1))), "conflict") << "even when it reads the head again";
  EXPECT_EQ(CodeOf(Move(Next("publisher-a", 2))), "conflict");
  EXPECT_EQ(Current().head.publisher, "publisher-b");
  EXPECT_EQ(CodeOf(Move(Next("publisher-b", 2))), "ok");
}

TEST_F(MoveHeadTest, LetsATakeoverClaimTheCurrentVersionUnchanged) {
  ASSERT_TRUE(Move(Next("publisher-a")));
  Head claim = Current().head;
  claim.publisher = "publisher-b";
  claim.nonce = RandomToken();
  claim.sequence += 1;
  EXPECT_EQ(CodeOf(Move(claim)), "conflict") << "not in the same epoch";
  claim.epoch = 2;
  EXPECT_EQ(CodeOf(Move(claim)), "ok");
  EXPECT_EQ(Current().head.version, Version(1));

  Manifest other = SampleManifest(run_, Version(1), Sha256::Of("x"));
  Head rewrite = Staged(other, claim.sequence + 1, "publisher-c", 3);
  EXPECT_EQ(CodeOf(Move(rewrite)), "invalid") << "a number is never used for other bytes";
}

TEST_F(MoveHeadTest, CountsALostReplyAsSuccess) {
  for (const Code code : {Code::kUnavailable, Code::kIo, Code::kConflict}) {
    store_->error_code = code;  // kConflict: the retry of the store met its own first try
    store_->trouble = Trouble::kReplyLost;
    const Head next = Next("publisher-a");
    const Result<Generation> moved = Move(next);
    ASSERT_TRUE(moved.has_value()) << MessageOf(moved);
    EXPECT_EQ(Current().generation, *moved);
    EXPECT_EQ(Current().head, next);
  }
}

TEST_F(MoveHeadTest, ReportsTheStoresErrorWhenTheHeadHasNotMoved) {
  store_->trouble = Trouble::kRequestLost;
  store_->error_code = Code::kNoSpace;
  const Result<Generation> moved = Move(Next("publisher-a"));
  EXPECT_EQ(CodeOf(moved), "no_space");
  EXPECT_NE(MessageOf(moved).find("has not moved to version 1"), std::string::npos) << MessageOf(moved);
  EXPECT_EQ(CodeOf(Move(Next("publisher-a"))), "ok");
}

TEST_F(MoveHeadTest, ReportsAConflictWhenAnotherWriterHidBehindTheError) {
  Manifest others = SampleManifest(run_, Version(1), Current().head.manifest.sha256);
  others.time = "2026-01-02T03:04:06.000Z";
  store_->others_bytes = SerializeHead(Staged(others, 2, "publisher-b", 2)).value();
  store_->trouble = Trouble::kOtherWins;
  const Result<Generation> moved = Move(Next("publisher-a"));
  EXPECT_EQ(CodeOf(moved), "conflict");
  EXPECT_NE(MessageOf(moved).find("publisher-b"), std::string::npos) << MessageOf(moved);
}

TEST_F(MoveHeadTest, CountsALostReplyAsSuccessAlsoWhenAnotherPublisherHasMovedTheHeadOnMeanwhile) {
  for (const bool publishes : {false, true}) {
    const Head mine = Next(publishes ? "publisher-c" : "publisher-a", publishes ? 3 : 1);
    store_->trouble = Trouble::kReplyLost;
    store_->after_trouble = [&] {
      Head others = publishes ? Next("publisher-d", 4) : Current().head;
      if (!publishes) {
        others.publisher = "publisher-b";
        others.epoch = 2;
        others.nonce = RandomToken();
        others.sequence += 1;
      }
      ASSERT_TRUE(Move(others));
    };
    const Result<Generation> moved = Move(mine);
    ASSERT_TRUE(moved.has_value()) << MessageOf(moved);
    EXPECT_NE(*moved, Current().generation) << "nobody can swap another's head with it";
  }
}

TEST_F(MoveHeadTest, SaysUnknownWhenTheHeadCannotBeReadAfterwards) {
  store_->trouble = Trouble::kUnreadableAfterwards;
  const Head next = Next("publisher-a");
  const Result<Generation> moved = Move(next);
  EXPECT_EQ(CodeOf(moved), "unavailable");
  EXPECT_NE(MessageOf(moved).find("unknown whether the head moved to version 1"), std::string::npos);
  store_->reads_fail = false;
  EXPECT_EQ(Current().head, next);
}

TEST_F(MoveHeadTest, ReportsAConflictWhenTheHeadWasDeleted) {
  store_->trouble = Trouble::kVanishes;
  EXPECT_EQ(CodeOf(Move(Next("publisher-a"))), "conflict");
}

TEST_F(MoveHeadTest, DoesNotMoveADamagedHead) {
  const Head next = Next("publisher-a");
  const std::optional<SettledHead> before = SettledNow(board_, run_);
  ASSERT_TRUE(store_->Delete(HeadKey(run_)));
  ASSERT_TRUE(store_->PutIfAbsent(HeadKey(run_), MemorySource(Bytes(300))));
  EXPECT_EQ(CodeOf(MoveFrom(before, next)), "corrupt");
  const Bytes garbled = store_->Get(HeadKey(run_), kMaxHeadBytes).value().bytes;
  EXPECT_EQ(garbled, Bytes(300)) << "nothing was written over it";
}

TEST_F(MoveHeadTest, MendsTheAliasThatACrashedPublisherLeftOut) {
  const Head crashed = Next("publisher-a");
  ASSERT_TRUE(Move(crashed));
  EXPECT_EQ(CodeOf(store_->Stat(ManifestKey(run_, Version(1)))), "not_found");
  ASSERT_TRUE(Move(Next("publisher-b", 2)));
  EXPECT_EQ(store_->Get(ManifestKey(run_, Version(1)), 1 << 20).value().bytes,
            store_->Get(crashed.manifest.key, 1 << 20).value().bytes);
  EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(1))), "ok");
}

TEST_F(MoveHeadTest, IsNotBlockedByTheLeftoversOfAPublisherThatDiedBefore) {
  Manifest abandoned = SampleManifest(run_, Version(1), Current().head.manifest.sha256);
  abandoned.stats.changed = 999;
  const ManifestRef leftover = board_.StageManifest(abandoned).value().ref();
  const Head next = Next("publisher-a");
  EXPECT_NE(next.manifest.key, leftover.key);
  ASSERT_TRUE(Move(next));
  ASSERT_TRUE(SettledNow(board_, run_));
  EXPECT_NE(board_.ReadManifest(run_, Version(1))->stats.changed, 999u);
  EXPECT_EQ(CodeOf(board_.Settle(Current())), "ok") << "again is a no-op";
}

TEST_F(MoveHeadTest, StopsWhenTheAliasHoldsAnotherManifest) {
  ASSERT_TRUE(Move(Next("publisher-a")));
  ASSERT_TRUE(store_->PutIfAbsent(ManifestKey(run_, Version(1)), MemorySource("{}")));
  EXPECT_EQ(CodeOf(board_.Settle(Current())), "conflict");
}

TEST_F(MoveHeadTest, CountsADirectorySyncThatFailedAfterTheRenameAsMoved) {
  const ScratchDirectory scratch;
  const Board board = Board::Create(FileStore::Open(scratch.path(), true).value()).value();
  const Manifest base = SampleManifest(run_, Version(0), std::nullopt);
  const StagedManifest staged = board.StageManifest(base).value();
  const Head head = SampleHead(staged, 1);
  SetFailpoints("store.cas_renamed:error");
  const Result<Generation> moved = board.MoveHead(std::nullopt, head, staged);
  SetFailpoints("");
  EXPECT_EQ(CodeOf(moved), "ok");
  EXPECT_EQ(board.ReadHead(run_)->head, head);
}

}  // namespace
}  // namespace skerry
