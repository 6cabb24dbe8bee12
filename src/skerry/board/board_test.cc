#include "skerry/board/board.h"

#include <gtest/gtest.h>

#include "skerry/board/board_testing.h"
#include "skerry/board/file_store.h"
#include "skerry/board/memory_store.h"

namespace skerry {
namespace {

class BoardTest : public testing::Test {
 protected:
  // Publishes versions up to `last` the way a publisher does.
  void Publish(const RunId& run, Version last) {
    for (Version version; version <= last; version = version.Next()) {
      const std::optional<SettledHead> current = SettledNow(board_, run);
      std::optional<Digest> parent;
      if (current) parent = current->head().manifest.sha256;
      const StagedManifest staged = board_.StageManifest(SampleManifest(run, version, parent)).value();
      const Head next = SampleHead(staged, version.number() + 1);
      ASSERT_TRUE(board_.MoveHead(current, next, staged));
      ASSERT_TRUE(SettledNow(board_, run));
    }
  }
  void Overwrite(const std::string& key, ByteSpan bytes) {
    ASSERT_TRUE(store_->Delete(key));
    ASSERT_TRUE(store_->PutIfAbsent(key, MemorySource(bytes)));
  }
  const RunId run_ = RunNamed("grpo-1");
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Board board_ = Board::Create(store_, "board-1").value();
};

TEST_F(BoardTest, IsCreatedOnceAndKeepsItsId) {
  EXPECT_EQ(Board::Open(store_)->id(), "board-1");
  EXPECT_EQ(Board::Create(store_, "board-2")->id(), "board-1");
  EXPECT_EQ(Board::Create(store_)->id(), "board-1");
  EXPECT_NE(Board::Create(std::make_shared<MemoryStore>())->id(), Board::Create(std::make_shared<MemoryStore>())->id());
  EXPECT_EQ(board_.Describe(), "board board-1 in memory");
}

TEST_F(BoardTest, IsNotOpenedWhereThereIsNone) {
  const Result<Board> none = Board::Open(std::make_shared<MemoryStore>());
  EXPECT_EQ(CodeOf(none), "not_found");
  EXPECT_NE(MessageOf(none).find("skerry init"), std::string::npos);
  Overwrite(BoardKey(), AsBytes(R"({"format":2,"id":"x"})"));
  EXPECT_EQ(CodeOf(Board::Open(store_)), "unsupported");
  Overwrite(BoardKey(), AsBytes(""));
  EXPECT_EQ(CodeOf(Board::Open(store_)), "corrupt");
}

TEST_F(BoardTest, ListsRunsThatHaveAHead) {
  EXPECT_TRUE(board_.Runs()->empty());
  Publish(RunNamed("b"), Version(0));
  Publish(RunNamed("a"), Version(0));
  ASSERT_TRUE(board_.PutRun({.run = RunNamed("begun"), .base = "", .parent = {}, .layout = Sha256::Of("l")}));
  EXPECT_EQ(board_.Runs().value(), (std::vector<RunId>{RunNamed("a"), RunNamed("b")}));
}

TEST_F(BoardTest, NamesTheRunsThatExistWhenOneIsMissing) {
  EXPECT_EQ(MessageOf(board_.ReadHead(run_)), "no run grpo-1 in memory; it has no runs");
  Publish(RunNamed("a"), Version(0));
  Publish(RunNamed("b"), Version(0));
  EXPECT_EQ(CodeOf(board_.ReadHead(run_)), "not_found");
  EXPECT_EQ(MessageOf(board_.ReadHead(run_)), "no run grpo-1 in memory; its runs: a, b");
}

TEST_F(BoardTest, DescribesARunOnce) {
  const RunInfo info{.run = run_, .base = "model", .parent = {}, .layout = Sha256::Of("l")};
  EXPECT_EQ(CodeOf(board_.ReadRun(run_)), "not_found");
  EXPECT_TRUE(board_.PutRun(info));
  EXPECT_TRUE(board_.PutRun(info));
  EXPECT_EQ(board_.ReadRun(run_).value(), info);
  RunInfo other = info;
  other.base = "another";
  EXPECT_EQ(CodeOf(board_.PutRun(other)), "conflict");
  EXPECT_NE(MessageOf(board_.PutRun(other)).find("'model'"), std::string::npos);
  Overwrite(RunKey(RunNamed("copy")), SerializeRunInfo(info).value());
  EXPECT_EQ(CodeOf(board_.ReadRun(RunNamed("copy"))), "mismatch");
}

TEST_F(BoardTest, ReadsEveryPublishedVersionAndNoLaterOne) {
  Publish(run_, Version(3));
  for (uint64_t v = 0; v <= 3; ++v) EXPECT_EQ(board_.ReadManifest(run_, Version(v))->version, Version(v));
  const Result<Manifest> later = board_.ReadManifest(run_, Version(4));
  EXPECT_EQ(CodeOf(later), "not_found");
  EXPECT_EQ(MessageOf(later), "run grpo-1 is at version 3, asked for 4");
}

TEST_F(BoardTest, ReadsTheHeadsVersionBeforeItsAliasIsThere) {
  Publish(run_, Version(2));
  ASSERT_TRUE(store_->Delete(ManifestKey(run_, Version(2))));
  EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(2))), "ok");
  ASSERT_TRUE(store_->Delete(ManifestKey(run_, Version(1))));
  EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(1))), "not_found");
}

TEST_F(BoardTest, WaitsForAManifestThatAReplicaDoesNotShowYet) {
  Publish(run_, Version(1));
  const Head head = board_.ReadHead(run_)->head;
  ASSERT_TRUE(store_->Delete(head.manifest.key));
  EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(1))), "unavailable");
}

TEST_F(BoardTest, RefusesAHeadThatIsDamagedOrOfAnotherRun) {
  Publish(run_, Version(1));
  const Bytes head = store_->Get(HeadKey(run_), 1 << 20)->bytes;
  for (const Bytes& bad : {Bytes(), Bytes(head.size()), Bytes(head.begin(), head.end() - 1)}) {
    Overwrite(HeadKey(run_), bad);
    EXPECT_EQ(CodeOf(board_.ReadHead(run_)), "corrupt");
    EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(0))), "corrupt");
  }
  Overwrite(HeadKey(RunNamed("other")), head);
  EXPECT_EQ(CodeOf(board_.ReadHead(RunNamed("other"))), "mismatch");
  EXPECT_EQ(MessageOf(board_.ReadHead(RunNamed("other"))), "runs/other/head is the head of run grpo-1, not of other");
}

TEST_F(BoardTest, RefusesAManifestOfAnotherRunOrVersion) {
  Publish(run_, Version(3));
  Publish(RunNamed("other"), Version(3));
  const Bytes foreign = store_->Get(ManifestKey(RunNamed("other"), Version(1)), 1 << 20)->bytes;
  Overwrite(ManifestKey(run_, Version(1)), foreign);
  EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(1))), "mismatch");
  const Bytes second = store_->Get(ManifestKey(run_, Version(2)), 1 << 20)->bytes;
  Overwrite(ManifestKey(run_, Version(1)), second);
  EXPECT_EQ(CodeOf(board_.ReadManifest(run_, Version(1))), "mismatch");
}

TEST_F(BoardTest, RefusesAManifestThatIsNotTheOneTheHeadNames) {
  Publish(run_, Version(1));
  const Head head = board_.ReadHead(run_)->head;
  Manifest changed = board_.ReadManifest(run_, Version(1)).value();
  changed.stats.changed += 1;
  Overwrite(head.manifest.key, SerializeManifest(changed).value());
  const Result<Manifest> read = board_.ReadManifest(run_, Version(1));
  EXPECT_EQ(CodeOf(read), "corrupt");
  EXPECT_NE(MessageOf(read).find(head.manifest.sha256.Hex()), std::string::npos) << MessageOf(read);
}

TEST_F(BoardTest, FollowsTheChainOfParentsByDigest) {
  Publish(run_, Version(3));
  const Manifest third = board_.ReadManifest(run_, Version(3)).value();
  const Manifest second = board_.ReadManifest(run_, Version(2), *third.parent).value();
  EXPECT_EQ(second, board_.ReadManifest(run_, Version(2)).value());
  const auto read_first = [&] { return board_.ReadManifest(run_, Version(1), *second.parent); };
  Manifest changed = read_first().value();
  EXPECT_EQ(changed.version, Version(1));
  const std::string staged = StagedManifestKey(run_, Version(1), *second.parent);
  ASSERT_TRUE(store_->Delete(staged));
  EXPECT_EQ(CodeOf(read_first()), "ok") << "the alias has it too";
  changed.time = "rewritten";
  Overwrite(ManifestKey(run_, Version(1)), SerializeManifest(changed).value());
  EXPECT_EQ(CodeOf(read_first()), "corrupt");
  ASSERT_TRUE(store_->Delete(ManifestKey(run_, Version(1))));
  EXPECT_EQ(CodeOf(read_first()), "not_found");
}

TEST_F(BoardTest, ReadsObjectsOnlyWithTheRightSizeAndDigest) {
  ASSERT_TRUE(board_.PutObject("runs/r/x", MemorySource("bytes")));
  const ObjectRef good{.key = "runs/r/x", .uri = {}, .size = 5, .sha256 = Sha256::Of("bytes")};
  EXPECT_EQ(AsText(board_.ReadObject(good, 5).value()), "bytes");
  EXPECT_EQ(CodeOf(board_.ReadObject(good, 4)), "corrupt");
  ObjectRef bad = good;
  bad.size = 6;
  EXPECT_EQ(MessageOf(board_.ReadObject(bad, 100)), "runs/r/x has 5 bytes, expected 6");
  bad = good;
  bad.sha256 = Sha256::Of("other");
  const Result<Bytes> read = board_.ReadObject(bad, 100);
  EXPECT_EQ(CodeOf(read), "corrupt");
  for (const Digest& side : {Sha256::Of("bytes"), Sha256::Of("other")}) {
    EXPECT_NE(MessageOf(read).find(side.Hex()), std::string::npos) << MessageOf(read);
  }
  bad.key = "runs/r/none";
  EXPECT_EQ(CodeOf(board_.ReadObject(bad, 100)), "not_found");
}

TEST_F(BoardTest, ReadsAnOutsideBaseByReference) {
  const ScratchDirectory scratch;
  const Path path = scratch.path() / "model 1%20.safetensors";
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("weights")));
  ObjectRef object{.key = {}, .uri = "file://" + path.string(), .size = 7, .sha256 = Sha256::Of("weights")};
  EXPECT_EQ(board_.LocalPath(object), path);
  EXPECT_EQ(AsText(board_.ReadObject(object, 10).value()), "weights");
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("weighty")));
  EXPECT_EQ(CodeOf(board_.ReadObject(object, 10)), "corrupt");
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("w")));
  EXPECT_EQ(CodeOf(board_.ReadObject(object, 10)), "corrupt");
  object.uri = "file://" + scratch.path().string();
  EXPECT_EQ(CodeOf(board_.ReadObject(object, 10)), "not_found") << "a directory is no file";
  object.uri = "https://example.com/model";
  EXPECT_EQ(CodeOf(board_.ReadObject(object, 10)), "unsupported");
  EXPECT_FALSE(board_.LocalPath(object).has_value());
}

TEST_F(BoardTest, FindsLayoutsByTheirDigest) {
  const std::string json = R"({"tensors":["a","b"]})";
  const Digest layout = board_.PutLayout(run_, AsBytes(json)).value();
  EXPECT_EQ(layout, Sha256::Of(json));
  EXPECT_EQ(board_.PutLayout(run_, AsBytes(json)).value(), layout);
  EXPECT_EQ(AsText(board_.ReadLayout(run_, layout).value()), json);
  EXPECT_EQ(CodeOf(board_.ReadLayout(run_, Sha256::Of("none"))), "not_found");

  // The same layout, packed by another zstd: one stored block instead of a compressed one.
  const Bytes stored = [&] {
    Bytes out = ToBytes(AsBytes(std::string_view("\x28\xb5\x2f\xfd\x20", 5)));
    const auto header = static_cast<uint32_t>(json.size() << 3 | 1);
    ByteWriter writer(out);
    writer.Int(static_cast<uint8_t>(json.size()));
    for (int shift = 0; shift < 24; shift += 8) writer.Int(static_cast<uint8_t>(header >> shift));
    writer.Raw(AsBytes(json));
    return out;
  }();
  Overwrite(LayoutKey(run_, layout), stored);
  EXPECT_EQ(CodeOf(board_.PutLayout(run_, AsBytes(json))), "ok");
  EXPECT_EQ(AsText(board_.ReadLayout(run_, layout).value()), json);

  Overwrite(LayoutKey(run_, Sha256::Of("x")), stored);
  EXPECT_EQ(CodeOf(board_.ReadLayout(run_, Sha256::Of("x"))), "corrupt");
  Overwrite(LayoutKey(run_, layout), AsBytes("garbage"));
  EXPECT_EQ(CodeOf(board_.ReadLayout(run_, layout)), "corrupt");
  EXPECT_EQ(CodeOf(board_.PutLayout(run_, AsBytes(json))), "corrupt");
}

}  // namespace
}  // namespace skerry
