// A board that signs, and one that trusts: every way to a manifest is checked.
#include <gtest/gtest.h>

#include "skerry/board/board.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/manifest_signature.h"
#include "skerry/board/memory_store.h"

namespace skerry {
namespace {

const PrivateKey kAlice = SampleKey(1), kBob = SampleKey(2);

class BoardSigningTest : public testing::Test {
 protected:
  Board SigningWith(const std::optional<PrivateKey>& key) const {
    Board board = plain_;
    if (key) board.SignWith(*key);
    return board;
  }
  Board Trusting(std::vector<PublicKey> keys) const {
    Board board = plain_;
    board.Trust(std::move(keys));
    return board;
  }
  // The next version, as a publisher with this key makes it.
  StagedManifest Publish(const std::optional<PrivateKey>& key) {
    const Board board = SigningWith(key);
    const std::optional<SettledHead> current = SettledNow(board, run_);
    const Version version = current ? current->head().version.Next() : Version(0);
    const StagedManifest staged =
        board
            .StageManifest(
                SampleManifest(run_, version, current ? std::optional(current->head().manifest.sha256) : std::nullopt))
            .value();
    EXPECT_EQ(MessageOf(board.MoveHead(current, SampleHead(staged, version.number() + 1), staged)), "");
    return staged;
  }
  // Every way to read the version, which must agree: what they say.
  std::string Read(const Board& board, const StagedManifest& staged) const {
    const Version version = staged.manifest().version;
    const Head head = plain_.ReadHead(run_)->head;
    std::vector<Result<Manifest>> read = {board.ReadManifest(run_, version), board.ReadManifest(head, version),
                                          board.ReadManifest(run_, version, staged.ref().sha256)};
    if (version < head.version) read.push_back(board.ReadSettledManifest(run_, version));
    for (const auto& result : read) {
      EXPECT_EQ(MessageOf(result), MessageOf(read[0]));
      EXPECT_EQ(CodeOf(result), CodeOf(read[0]));
      EXPECT_TRUE(!result || *result == staged.manifest());
    }
    return read[0] ? "ok" : CodeOf(read[0]) + ": " + MessageOf(read[0]);
  }

  const RunId run_ = RunNamed("grpo-1");
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  const Board plain_ = Board::Create(store_).value();
};

TEST_F(BoardSigningTest, SignsWhatItStagesAndTheHeadNamesTheSignedBytes) {
  const StagedManifest base = Publish(kAlice), next = Publish(kAlice);
  for (const StagedManifest& staged : {base, next}) {
    ASSERT_TRUE(staged.manifest().signature);
    EXPECT_EQ(staged.manifest().signature->key, kAlice.public_key());
    const Bytes bytes = store_->Get(staged.ref().key, kMaxManifestBytes)->bytes;
    EXPECT_EQ(Sha256::Of(bytes), staged.ref().sha256);
    EXPECT_EQ(ParseManifest(bytes).value(), staged.manifest());
    EXPECT_EQ(Read(Trusting({kAlice.public_key()}), staged), "ok");
  }
  EXPECT_EQ(plain_.ReadHead(run_)->head.manifest, next.ref());
  EXPECT_EQ(next.manifest().parent, base.ref().sha256);
}

TEST_F(BoardSigningTest, RefusesByNameWhatNobodyTrustedSignedOnEveryPath) {
  const std::vector<StagedManifest> versions = {Publish(kAlice), Publish(std::nullopt), Publish(kBob),
                                                Publish(kAlice), Publish(kBob),         Publish(std::nullopt)};
  const std::string alice = kAlice.public_key().Text(), bob = kBob.public_key().Text();
  const Board trusting = Trusting({kAlice.public_key()});
  EXPECT_EQ(Read(trusting, versions[0]), "ok");
  EXPECT_EQ(Read(trusting, versions[1]), "mismatch: run grpo-1 version 1: not signed (trusted: " + alice + ")");
  EXPECT_EQ(Read(trusting, versions[2]),
            "mismatch: run grpo-1 version 2: signed by " + bob + ", which is not trusted (trusted: " + alice + ")");
  EXPECT_EQ(Read(trusting, versions[3]), "ok");
  EXPECT_EQ(Read(trusting, versions[5]), "mismatch: run grpo-1 version 5: not signed (trusted: " + alice + ")");
  EXPECT_EQ(Read(Trusting({kAlice.public_key(), kBob.public_key()}), versions[4]), "ok");
  for (const StagedManifest& staged : versions) EXPECT_EQ(Read(plain_, staged), "ok");
}

TEST_F(BoardSigningTest, FindsAManifestThatWasChangedAtItsAlias) {
  const StagedManifest base = Publish(kAlice);
  Publish(kAlice);
  Manifest changed = base.manifest();
  changed.stats.changed += 1;
  const std::string key = ManifestKey(run_, Version(0));
  ASSERT_TRUE(store_->Delete(key));
  ASSERT_TRUE(store_->PutIfAbsent(key, MemorySource(SerializeManifest(changed).value())));
  EXPECT_EQ(CodeOf(plain_.ReadManifest(run_, Version(0))), "ok") << "nothing but the signature tells";
  const Result<Manifest> read = Trusting({kAlice.public_key()}).ReadManifest(run_, Version(0));
  EXPECT_EQ(CodeOf(read), "corrupt");
  EXPECT_EQ(MessageOf(read),
            "run grpo-1 version 0: the signature by " + kAlice.public_key().Text() + " does not match the manifest");
}

TEST_F(BoardSigningTest, TellsWhetherItWouldAcceptAManifestThatWasKeptElsewhere) {
  const Manifest by_alice = Publish(kAlice).manifest(), unsigned_one = Publish(std::nullopt).manifest();
  Manifest changed = by_alice;
  changed.model = Sha256::Of("another");
  const Board trusting = Trusting({kAlice.public_key()});
  EXPECT_TRUE(trusting.Trusts(by_alice));
  for (const Manifest& manifest : {changed, unsigned_one}) {
    EXPECT_FALSE(trusting.Trusts(manifest));
    EXPECT_TRUE(plain_.Trusts(manifest));
  }
}

TEST_F(BoardSigningTest, DoesNotSettleAHeadThatItDoesNotTrust) {
  Publish(kBob);
  const HeadAt at = plain_.ReadHead(run_).value();
  EXPECT_EQ(CodeOf(Trusting({kAlice.public_key()}).Settle(at)), "mismatch");
  EXPECT_EQ(CodeOf(Trusting({kBob.public_key()}).Settle(at)), "ok");
}

TEST_F(BoardSigningTest, NeverPublishesWhatItWouldRefuseToRead) {
  for (const auto& key : {std::optional<PrivateKey>(), std::optional(kBob)}) {
    Board board = SigningWith(key);
    board.Trust({kAlice.public_key()});
    EXPECT_EQ(CodeOf(board.StageManifest(SampleManifest(run_, Version(0), std::nullopt))), "mismatch");
  }
  EXPECT_TRUE(store_->List(VersionPrefix(run_, Version(0)))->empty());
  Board board = SigningWith(kAlice);
  board.Trust({kAlice.public_key()});
  EXPECT_EQ(CodeOf(board.StageManifest(SampleManifest(run_, Version(0), std::nullopt))), "ok");
}

TEST_F(BoardSigningTest, DropsTheSignatureThatAManifestBroughtFromElsewhere) {
  const Manifest other = SignManifest(SampleManifest(RunNamed("other"), Version(0), std::nullopt), kBob).value();
  Manifest copy = other;
  copy.run = run_;
  EXPECT_FALSE(plain_.StageManifest(copy)->manifest().signature);
  const StagedManifest staged = SigningWith(kAlice).StageManifest(copy).value();
  EXPECT_EQ(staged.manifest().signature->key, kAlice.public_key());
  EXPECT_EQ(CodeOf(Trusting({kAlice.public_key()}).ReadManifest(run_, Version(0), staged.ref().sha256)), "ok");
}

}  // namespace
}  // namespace skerry
