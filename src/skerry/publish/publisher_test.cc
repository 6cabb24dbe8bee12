#include "skerry/publish/publisher.h"

#include "skerry/board/file_store.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PublisherTest : public PublishTestBase {
 protected:
  PublisherTest() {
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
  }
};
using PublisherFieldCase = PublisherTest;

TEST_F(PublisherTest, PublishesVersionAfterVersionBitForBit) {
  for (uint64_t version = 1; version <= 4; ++version) {
    Step();
    const PublishReceipt receipt = Must(Publish(run_, {.step = static_cast<int64_t>(10 * version)}));
    EXPECT_TRUE(receipt.published);
    EXPECT_EQ(receipt.version, Version(version));
    EXPECT_EQ(receipt.step, static_cast<int64_t>(10 * version));
    EXPECT_GT(receipt.changed, 0u);
    EXPECT_LT(receipt.changed, receipt.elements);
    EXPECT_THAT(receipt.warning, IsEmpty());
    EXPECT_EQ(HeadOf(run_), Version(version));
    const Manifest manifest = Must(board_.ReadManifest(run_, Version(version)));
    EXPECT_EQ(manifest.step, static_cast<int64_t>(10 * version));
    EXPECT_EQ(manifest.model, receipt.model);
    EXPECT_EQ(manifest.stats.changed, receipt.changed);
    EXPECT_EQ(manifest.stats.patch_bytes, receipt.patch_bytes);
    EXPECT_EQ(manifest.time, "1970-01-01T12:00:00.000Z");
  }
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherTest, TheSameBytesAgainAreNoVersionUnlessAskedFor) {
  Step();
  Must(Publish(run_));
  const PublishReceipt again = Must(Publish(run_));
  EXPECT_FALSE(again.published);
  EXPECT_EQ(again.version, Version(1));
  EXPECT_EQ(HeadOf(run_), Version(1));
  const PublishReceipt asked = Must(Publish(run_, {.allow_empty = true}));
  EXPECT_TRUE(asked.published);
  EXPECT_EQ(asked.version, Version(2));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherTest, ASideFileAloneMakesAVersion) {
  model_.side_files["config.json"] = "changed";
  const PublishReceipt receipt = Must(Publish(run_));
  EXPECT_TRUE(receipt.published);
  EXPECT_EQ(receipt.changed, 0u);
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherTest, AnotherCutOfTheFilesIsAVersionThatIsRebuiltByteForByte) {
  Step();
  Must(Publish(run_));
  form_.shards = 3;
  Must(Publish(run_));
  Step();
  form_.reversed = true;
  Must(Publish(run_));
  Step();
  Must(Publish(run_));
  ASSERT_EQ(HeadOf(run_), Version(4));
  ExpectEveryVersionComesOut(run_);
  // A reader in place follows as well.
  const Path reader = directory_ / "reader";
  for (uint64_t version = 0; version <= 4; ++version) {
    Must(CatchUp(run_, reader, version));
    EXPECT_EQ(FilesOf(reader), versions_[run_][version]) << version;
  }
}

// Rewrites a side file once the comparison has begun.
struct Meddler : Progress {
  explicit Meddler(Path file) : file(std::move(file)) {}
  void Begin(std::string_view stage, uint64_t) override {
    if (stage == "compare") Must(WriteFileAtomically(file, AsBytes("written too late")));
  }
  void Advance(uint64_t) override {}
  Path file;
};

TEST_F(PublisherTest, ASideFileThatChangesMeanwhileStaysWithTheNextVersion) {
  Step();
  const Path exported = Export();
  const auto as_compared = FilesOf(exported);
  const Checkpoint checkpoint = Must(Checkpoint::Open(exported));
  const PublishOptions options{.state_directory = directory_ / "publisher-grpo-1"};
  Meddler meddler(exported / "trainer.json");
  EXPECT_TRUE(Must(skerry::Publish(board_, run_, checkpoint, options, clock_, meddler)).published);
  versions_[run_][1] = as_compared;
  ExpectEveryVersionComesOut(run_);

  EXPECT_TRUE(Must(skerry::Publish(board_, run_, checkpoint, options, clock_, Progress::None())).published);
  versions_[run_][2] = FilesOf(exported);
  EXPECT_NE(versions_[run_][2], as_compared);
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherTest, OtherTensorsThanTheRunsAreRefusedByName) {
  model_.tensors.push_back(RandomTensor("adapter.weight", DType::kBF16, {4}, random_));
  EXPECT_THAT(Publish(run_), Fails(Code::kInvalid, HasSubstr("'adapter.weight'")));
  EXPECT_EQ(HeadOf(run_), Version(0));
}

TEST_F(PublisherTest, ARunThatDoesNotExistIsNotFound) {
  EXPECT_THAT(Publish(Run("nobody")), Fails(Code::kNotFound, HasSubstr("nobody")));
}

TEST_F(PublisherFieldCase, A5_APatchIsAgainstWhatWasPublishedLastAndNotTheLastStep) {
  const auto move = [&](const char* tensor, size_t byte) { model_[tensor].bytes[byte] ^= std::byte{1}; };
  move("model.embed.weight", 0);
  const Path missed = Export();  // a step that is not published
  move("model.position_ids", 8);
  const PublishReceipt receipt = Must(Publish(run_));
  EXPECT_EQ(receipt.changed, 2u);
  EXPECT_EQ(receipt.tensors_changed, 2u);
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherFieldCase, A6_AValueThatWentThereAndBackBetweenVersionsIsNoChange) {
  model_["model.embed.weight"].bytes[0] ^= std::byte{1};
  Export();
  model_["model.embed.weight"].bytes[0] ^= std::byte{1};
  EXPECT_FALSE(Must(Publish(run_)).published);
  // And over a version: there, then back.
  model_["model.embed.weight"].bytes[0] ^= std::byte{1};
  Must(Publish(run_));
  model_["model.embed.weight"].bytes[0] ^= std::byte{1};
  const PublishReceipt back = Must(Publish(run_));
  EXPECT_EQ(back.changed, 1u);
  EXPECT_EQ(back.model, Must(board_.ReadManifest(run_, Version(0))).model);
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherFieldCase, A7_TheAnchorHoldsEveryTensorAndSideFile) {
  const Manifest base = Must(board_.ReadManifest(run_, Version(0)));
  ASSERT_EQ(base.anchors.size(), 1u);
  std::vector<std::string> files;
  for (const AnchorFile& file : Must(board_.ReadAnchor(run_, base.anchors[0])).files) files.push_back(file.path);
  EXPECT_THAT(files,
              ::testing::UnorderedElementsAre("config.json", "tokenizer.json", "model.safetensors.index.json",
                                              "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherFieldCase, A18_IdenticalBytesUnderAnAskedNumberAreANewVersionWithAnEmptyDelta) {
  for (uint64_t version = 1; version <= 4; ++version) {
    Step();
    Must(Publish(run_));
  }
  const PublishReceipt empty = Must(Publish(run_, {.version = Version(5)}));
  EXPECT_TRUE(empty.published);
  EXPECT_EQ(empty.version, Version(5));
  EXPECT_EQ(empty.changed, 0u);
  EXPECT_LE(empty.patch_bytes, 1024u);
  ExpectEveryVersionComesOut(run_);
  const Path reader = directory_ / "reader";
  Must(CatchUp(run_, reader, 4));
  const CatchUpReceipt caught_up = Must(CatchUp(run_, reader));
  EXPECT_EQ(caught_up.version, Version(5));
  EXPECT_EQ(caught_up.changed, 0u);
}

TEST_F(PublisherTest, AnAskedNumberThatIsTakenIsANoOpForTheSameBytesAndAConflictForOthers) {
  Step();
  Must(Publish(run_, {.version = Version(1)}));
  const PublishReceipt again = Must(Publish(run_, {.version = Version(1)}));
  EXPECT_FALSE(again.published);
  EXPECT_EQ(again.version, Version(1));
  Step();
  EXPECT_THAT(Publish(run_, {.version = Version(1)}), Fails(Code::kConflict, HasSubstr("version 1")));
  EXPECT_THAT(Publish(run_, {.version = Version(3)}),
              Fails(Code::kInvalid, AllOf(HasSubstr("the next one is 2"), HasSubstr("3"))));
  EXPECT_EQ(HeadOf(run_), Version(1));
}

TEST_F(PublisherFieldCase, F1_APublishThatFailsAfterEncodingLosesNothing) {
  Step();
  Must(Publish(run_));
  for (const char* failpoint :
       {"publish.encoded:errno=28", "publish.patch_stored:errno=28", "publish.manifest_stored:errno=28"}) {
    Step();
    {
      const WithFailpoints with(failpoint);
      EXPECT_THAT(Publish(run_), Fails(Code::kNoSpace)) << failpoint;
    }
    EXPECT_EQ(HeadOf(run_), Version(1));
  }
  Step();
  EXPECT_EQ(Must(Publish(run_)).version, Version(2));
  ExpectEveryVersionComesOut(run_);
  const Path reader = directory_ / "reader";
  Must(CatchUp(run_, reader, 1));
  Must(CatchUp(run_, reader));
  EXPECT_EQ(FilesOf(reader), versions_[run_][2]);
}

// Every failpoint of publishing, met once; then the trainer goes on.
TEST_F(PublisherTest, AFailureAtAnyPointIsMendedByTheNextPublish) {
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("publish.") && !name.starts_with("apply.") && !name.starts_with("pull.")) continue;
    SCOPED_TRACE(name);
    Step();
    const auto before = HeadOf(run_);
    const auto now = FilesOf(Export());
    {
      const WithFailpoints with(fmt::format("{}:error", name));
      (void)Publish(run_);
    }
    if (HeadOf(run_) != before) versions_[run_][HeadOf(run_).number()] = now;
    Step();
    const PublishReceipt receipt = Must(Publish(run_));
    EXPECT_TRUE(receipt.published);
    EXPECT_EQ(receipt.version, HeadOf(run_));
    EXPECT_THAT(receipt.warning, IsEmpty());
  }
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherTest, AFullDiskAtAnyWriteIsMendedByTheNextPublish) {
  Step();
  Must(Publish(run_));
  for (int hit = 1; hit < 40; hit += 3) {
    Step();
    const auto before = HeadOf(run_);
    const auto now = FilesOf(Export());
    {
      const WithFailpoints with(fmt::format("file.write:errno=28@{}", hit));
      (void)Publish(run_);
    }
    if (HeadOf(run_) != before) versions_[run_][HeadOf(run_).number()] = now;
  }
  Step();
  Must(Publish(run_));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherTest, ALostOrDamagedSnapshotIsBuiltAnew) {
  Step();
  Must(Publish(run_));
  const Path state = directory_ / ("publisher-" + run_.str()), snapshot = state / "snapshot";
  std::filesystem::remove_all(snapshot);
  Step();
  Must(Publish(run_));
  // A flipped bit in a place that no patch touches shows at the next encoding, which digests everything.
  const Path shard = snapshot / "model-00001-of-00002.safetensors";
  std::string bytes = ReadText(shard);
  bytes[bytes.size() - 5] ^= 0x40;
  WriteText(shard, bytes);
  Step();
  Must(Publish(run_));
  WriteText(snapshot / ".skerry" / "state.json", "{");
  Step();
  Must(Publish(run_));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherFieldCase, F3_TheBaseIsVersion0AndTheFirstUpdateVersion1) {
  EXPECT_EQ(HeadOf(run_), Version(0));
  Step();
  EXPECT_EQ(Must(Publish(run_)).version, Version(1));
}

TEST_F(PublisherFieldCase, F10_OfTwoPublishersAtOnceOneLosesCleanly) {
  Step();
  Must(Publish(run_, {.state_directory = directory_ / "a"}));
  // B takes over while A is about to move the head.
  Step();
  std::optional<PublishReceipt> winner;
  store_->before_swap = [&] {
    const TestModel a = model_;
    Step();
    winner = Must(Publish(run_, {.state_directory = directory_ / "b"}));
    model_ = a;
  };
  const Result<PublishReceipt> loser = Publish(run_, {.state_directory = directory_ / "a"});
  EXPECT_THAT(loser, Fails(Code::kConflict, HasSubstr("version 2")));
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->version, Version(2));
  EXPECT_EQ(HeadOf(run_), Version(2));
  EXPECT_EQ(Must(board_.ReadHead(run_)).head.model, winner->model);
  ExpectEveryVersionComesOut(run_);
  // A has been replaced, and stays so until it is told to take the run over again, on top of what B published.
  Step();
  EXPECT_THAT(Publish(run_, {.state_directory = directory_ / "a"}),
              Fails(Code::kConflict, HasSubstr("took over with epoch 3")));
  EXPECT_EQ(Must(Publish(run_, {.state_directory = directory_ / "a", .take_over = true})).version, Version(3));
  EXPECT_THAT(Publish(run_, {.state_directory = directory_ / "b"}), Fails(Code::kConflict));
  ExpectEveryVersionComesOut(run_);
}

TEST_F(PublisherFieldCase, D12_APublisherAtRestKeepsNoFileOfTheBoardOpen) {
  const Path root = directory_ / "board";
  board_ = Must(Board::Create(Must(FileStore::Open(root, /*create=*/true))));
  Must(Init(run_));
  Publisher publisher = Must(Publisher::Open(board_, run_, directory_ / "state"));
  for (int i = 0; i < 2; ++i) {
    Step();
    const Path exported = Export();
    const Checkpoint checkpoint = Must(Checkpoint::Open(exported));
    Must(publisher.Publish(checkpoint, {}, clock_, Progress::None()));
  }
  Must(CatchUp(run_, directory_ / "reader"));
  int others = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the listing's own descriptor
    const std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
    EXPECT_FALSE(file.starts_with(root.string())) << file;
    others += file.starts_with(directory_.path().string()) ? 1 : 0;
  }
  EXPECT_GT(others, 0) << "its lock, at least";
}

TEST_F(PublisherTest, IsFencedOffAlsoWhenItWasKilledRightAfterItsFirstVersion) {
  Step();
  {
    const WithFailpoints with("publish.head_moved:error");
    (void)Publish(run_, {.state_directory = directory_ / "a"});
  }
  ASSERT_EQ(HeadOf(run_), Version(1));
  Step();
  Must(Publish(run_, {.state_directory = directory_ / "b"}));
  Step();
  EXPECT_THAT(Publish(run_, {.state_directory = directory_ / "a"}), Fails(Code::kConflict, HasSubstr("took over")));
}

TEST_F(PublisherTest, OneStateDirectoryServesOnePublisherAtATime) {
  const Path state = directory_ / "shared";
  std::filesystem::create_directories(state);
  const FileLock lock = Must(FileLock::TryAcquire(state / "lock"));
  EXPECT_THAT(Publish(run_, {.state_directory = state}), Fails(Code::kConflict, HasSubstr("another publisher")));
}

TEST_F(PublisherFieldCase, D8_TwoRunsOnOneBoardDoNotMix) {
  const RunId other = Run("grpo-2");
  const TestModel first = model_;
  model_.Nudge(0.5, random_);
  versions_[other][0] = FilesOf(Export());
  Must(Init(other));
  TestModel second = model_;
  for (int i = 0; i < 3; ++i) {
    model_ = first;
    Step(0.02 * (i + 1));
    Must(Publish(run_));
    model_ = second;
    Step(0.03);
    second = model_;
    Must(Publish(other));
  }
  ExpectEveryVersionComesOut(run_);
  ExpectEveryVersionComesOut(other);
  Must(CatchUp(run_, directory_ / "reader"));
  const auto before = FilesOf(directory_ / "reader");
  EXPECT_THAT(CatchUp(other, directory_ / "reader"),
              Fails(Code::kMismatch, AllOf(HasSubstr("grpo-1"), HasSubstr("grpo-2"))));
  EXPECT_EQ(FilesOf(directory_ / "reader"), before);
}

TEST_F(PublisherTest, AStateDirectoryOfAnotherRunIsOnlyACache) {
  const RunId other = Run("grpo-2");
  Must(Init(other));
  Step();
  Must(Publish(run_, {.state_directory = directory_ / "shared"}));
  Step();
  Must(Publish(other, {.state_directory = directory_ / "shared"}));
  ExpectEveryVersionComesOut(run_);
  Must(CatchUp(other, directory_ / "reader"));
  EXPECT_EQ(FilesOf(directory_ / "reader"), versions_[other][1]);
}

TEST_F(PublisherFieldCase, D3_LeftoversOfAFailedVersionNeverGetIntoTheNextOne) {
  Step();
  {
    const WithFailpoints with("publish.manifest_stored:error");
    EXPECT_FALSE(Publish(run_));
  }
  Step();
  form_.shards = 3;
  Must(Publish(run_));
  ExpectEveryVersionComesOut(run_);
  EXPECT_EQ(versions_[run_].size(), 2u);
  const Manifest manifest = Must(board_.ReadManifest(run_, Version(1)));
  EXPECT_EQ(manifest.edges[0].parts.size(), 1u);
  for (const SideFile& file : manifest.side_files) EXPECT_TRUE(versions_[run_][1].contains(file.path)) << file.path;
}

}  // namespace
}  // namespace skerry
