// apply/catch_up.h, with versions that were really published.
#include "skerry/apply/catch_up.h"

#include "skerry/apply/canonical_checkpoint.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CatchUpTest : public PublishTestBase {
 protected:
  CatchUpTest() {
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
  }
  void PublishVersions(int count) {
    for (int i = 0; i < count; ++i) {
      Step();
      Must(Publish(run_));
    }
  }
  void ExpectAt(uint64_t version) {
    EXPECT_EQ(FilesOf(reader_), versions_[run_][version]);
    EXPECT_EQ(Must(ReadState(DefaultStateDirectory(reader_)))->label, (VersionLabel{run_.str(), Version(version)}));
  }
  // Nothing of a build stands beside the reader's directory, only its lock.
  void ExpectNothingBeside() {
    EXPECT_THAT(NamesIn(reader_.parent_path()), ::testing::ElementsAre(".one.lock", "one"));
  }

  const Path reader_ = directory_ / "readers" / "one";
};
using CatchUpFieldCase = CatchUpTest;

TEST_F(CatchUpTest, BuildsFromTheAnchorThenMovesInPlace) {
  PublishVersions(2);
  const CatchUpReceipt first = Must(CatchUp(run_, reader_));
  EXPECT_EQ(first.version, Version(2));
  EXPECT_EQ(first.from, std::nullopt);
  EXPECT_EQ(first.patches, 2u);
  EXPECT_GT(first.bytes_fetched, 10'000u);
  EXPECT_THAT(first.healed, IsEmpty());
  ExpectAt(2);
  ExpectNothingBeside();
  PublishVersions(1);
  const CatchUpReceipt second = Must(CatchUp(run_, reader_));
  EXPECT_EQ(second.from, Version(2));
  EXPECT_EQ(second.patches, 1u);
  EXPECT_LT(second.bytes_fetched, first.bytes_fetched / 2);
  EXPECT_EQ(second.model, Must(board_.ReadHead(run_)).head.model);
  ExpectAt(3);
}

TEST_F(CatchUpFieldCase, G2_SixVersionsAtOnceAndThenNothingToDo) {
  Must(CatchUp(run_, reader_));
  PublishVersions(6);
  const CatchUpReceipt receipt = Must(CatchUp(run_, reader_));
  EXPECT_EQ(receipt.from, Version(0));
  EXPECT_EQ(receipt.patches, 6u);
  ExpectAt(6);
  const CatchUpReceipt again = Must(CatchUp(run_, reader_));
  EXPECT_EQ(again.patches, 0u);
  EXPECT_EQ(again.bytes_fetched, 0u);
  EXPECT_EQ(again.changed, 0u);
  ExpectAt(6);
  const Path independent = directory_ / "independent";
  Must(CatchUp(run_, independent));
  EXPECT_EQ(FilesOf(independent), FilesOf(reader_));
}

TEST_F(CatchUpFieldCase, G4_FollowingEveryVersionAppliesEachPatchOnce) {
  Must(CatchUp(run_, reader_));
  uint64_t patches = 0;
  for (int i = 0; i < 8; ++i) {
    PublishVersions(1);
    patches += Must(CatchUp(run_, reader_)).patches;
  }
  EXPECT_EQ(patches, 8u);
}

TEST_F(CatchUpTest, GoesBackToAnOlderVersion) {
  PublishVersions(3);
  Must(CatchUp(run_, reader_));
  Must(CatchUp(run_, reader_, 1));
  ExpectAt(1);
  ExpectNothingBeside();
  Must(CatchUp(run_, reader_));
  ExpectAt(3);
}

TEST_F(CatchUpTest, RefusesAVersionThatIsNotThereYetAndARunThatIsNot) {
  EXPECT_THAT(CatchUp(run_, reader_, 1), Fails(Code::kInvalid, AllOf(HasSubstr("at version 0"), HasSubstr("1"))));
  EXPECT_FALSE(CatchUp(Run("nobody"), reader_));
  EXPECT_FALSE(std::filesystem::exists(reader_));
}

TEST_F(CatchUpTest, LeavesADirectoryAloneThatItDidNotMake) {
  WriteText(reader_ / "precious.txt", "mine");
  EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kConflict, HasSubstr("was not made by")));
  EXPECT_EQ(ReadText(reader_ / "precious.txt"), "mine");
}

TEST_F(CatchUpTest, ATrailingSlashIsTheSameDirectory) {
  Must(CatchUp(run_, reader_.string() + "/"));
  PublishVersions(1);
  EXPECT_EQ(Must(CatchUp(run_, reader_)).from, Version(0));
  ExpectAt(1);
}

TEST_F(CatchUpTest, AFailureAtAnyPointLeavesOldOrNewAndTheNextCallGetsThere) {
  PublishVersions(2);
  form_.shards = 3;
  PublishVersions(1);
  for (const bool from_scratch : {true, false}) {
    for (const std::string_view name : FailpointNames()) {
      if (!name.starts_with("apply.") && !name.starts_with("pull.") && !name.starts_with("rebuild.")) continue;
      if (name == "pull.part_filled") continue;  // of packed anchors
      SCOPED_TRACE(fmt::format("{} {}", from_scratch ? "build" : "move", name));
      std::filesystem::remove_all(reader_.parent_path());
      if (!from_scratch) Must(CatchUp(run_, reader_, 1));
      {
        const WithFailpoints with(fmt::format("{}:error", name));
        EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kIo));
      }
      EXPECT_NE(std::filesystem::exists(reader_), from_scratch);
      Must(CatchUp(run_, reader_));
      ExpectAt(3);
      ExpectNothingBeside();
    }
  }
}

class CatchUpCallFails : public CatchUpTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(CatchUpCallFails, AtAnyCallAndTheNextCallGetsThere) {
  PublishVersions(2);
  const Path at_1 = directory_ / "at_1";
  Must(CatchUp(run_, at_1, 1));
  int failures = 0;
  for (int hit = 1; hit < 200; hit += 2) {
    SCOPED_TRACE(fmt::format("{}@{}", GetParam(), hit));
    std::filesystem::remove_all(reader_.parent_path());
    std::filesystem::create_directories(reader_.parent_path());
    std::filesystem::copy(at_1, reader_, std::filesystem::copy_options::recursive);
    Result<CatchUpReceipt> caught_up = CatchUpReceipt();
    {
      const WithFailpoints with(fmt::format("{}@{}", GetParam(), hit));
      caught_up = CatchUp(run_, reader_);
    }
    if (caught_up) {
      EXPECT_GT(hit, 3);
      break;
    }
    ++failures;
    Must(CatchUp(run_, reader_));
    ExpectAt(2);
  }
  EXPECT_GE(failures, 1);
}

INSTANTIATE_TEST_SUITE_P(Each, CatchUpCallFails,
                         ::testing::Values("file.write:errno=28", "file.sync:errno=5", "file.rename:errno=13"));

TEST_F(CatchUpTest, AnInterruptedBuildOfAnotherRunDoesNotGetInTheWay) {
  // The other run's base is one file without an index.
  const RunId other = Run("other");
  const CheckpointForm two_shards = form_;
  form_ = {};
  versions_[other][0] = FilesOf(Export());
  Must(Init(other));
  form_ = two_shards;
  {
    const WithFailpoints with("pull.fetched:error");
    EXPECT_FALSE(CatchUp(run_, reader_));
  }
  Must(CatchUp(other, reader_));
  EXPECT_EQ(FilesOf(reader_), versions_[other][0]);
}

TEST_F(CatchUpTest, AnInterruptedBuildIsGoneOnWithAndNotBegunAgain) {
  PublishVersions(3);
  {
    // The anchor's files, then the first patch; the second one is fetched but not applied.
    const WithFailpoints with("pull.fetched:error@3");
    EXPECT_FALSE(CatchUp(run_, reader_));
  }
  const CatchUpReceipt receipt = Must(CatchUp(run_, reader_));
  ExpectAt(3);
  uint64_t patch = Must(board_.ReadManifest(run_, Version(3))).edges[0].parts[0].object.size;
  EXPECT_LE(receipt.bytes_fetched, patch) << "the rest was there already";
}

TEST_F(CatchUpFieldCase, G6_ADamagedLocalCheckpointIsBuiltAnew) {
  PublishVersions(1);
  const auto damage_and_expect_healed = [&](const char* what, auto damage) {
    SCOPED_TRACE(what);
    std::filesystem::remove_all(reader_.parent_path());
    Must(CatchUp(run_, reader_, HeadOf(run_).number()));
    damage();
    PublishVersions(1);
    const Result<CatchUpReceipt> receipt = CatchUp(run_, reader_);
    ASSERT_THAT(receipt, Succeeds());
    EXPECT_THAT(receipt->healed, Not(IsEmpty()));
    ExpectAt(HeadOf(run_).number());
    ExpectNothingBeside();
  };
  const Path shard = reader_ / "model-00002-of-00002.safetensors";
  damage_and_expect_healed("bytes", [&] {
    // The mlp weight, where the next patch is sure to touch a few words of what is damaged.
    std::string bytes = ReadText(shard);
    for (size_t at = bytes.size() / 3; at < bytes.size() / 2; ++at) bytes[at] ^= 0x11;
    WriteText(shard, bytes);
  });
  damage_and_expect_healed("truncated shard", [&] { std::filesystem::resize_file(shard, 5000); });
  damage_and_expect_healed("missing shard", [&] { std::filesystem::remove(shard); });
  damage_and_expect_healed("missing index", [&] { std::filesystem::remove(reader_ / "model.safetensors.index.json"); });
  damage_and_expect_healed("state", [&] { WriteText(reader_ / ".skerry" / "state.json", "{\"format\":1"); });
  damage_and_expect_healed("side file", [&] { WriteText(reader_ / "config.json", "damaged"); });
  damage_and_expect_healed("missing side file", [&] { std::filesystem::remove(reader_ / "tokenizer.json"); });
  damage_and_expect_healed("damaged journal",
                           [&] { WriteText(reader_ / ".skerry" / "journal", "SKERRYJ1 and then something else"); });
}

TEST_F(CatchUpFieldCase, G6_AMissingSingleShardIsHealedToo) {
  form_ = {};
  const RunId single = Run("single");
  Must(Init(single));
  Must(CatchUp(single, reader_));
  std::filesystem::remove(reader_ / "model.safetensors");
  const Result<CatchUpReceipt> receipt = CatchUp(single, reader_);
  ASSERT_THAT(receipt, Succeeds());
  EXPECT_EQ(FilesOf(reader_), FilesOf(Export()));
}

TEST_F(CatchUpFieldCase, G13_WaitsForAPatchThatIsAnnouncedButNotThereYet) {
  Must(CatchUp(run_, reader_));
  PublishVersions(1);
  const ObjectRef patch = Must(board_.ReadManifest(run_, Version(1))).edges[0].parts[0].object;
  const Bytes content = Must(board_.ReadObject(patch, 1 << 20));
  Must(store_->Delete(patch.key));
  EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kUnavailable, HasSubstr(patch.key)));
  ExpectAt(0);
  int pauses = 0;
  CatchUpOptions options{.patience = {.limit = std::chrono::seconds(60), .sleep = [&](std::chrono::milliseconds) {
                                        if (++pauses == 4) Must(board_.PutObject(patch.key, MemorySource(content)));
                                      }}};
  Must(skerry::CatchUp(board_, run_, reader_, options, Progress::None()));
  EXPECT_EQ(pauses, 4);
  ExpectAt(1);
}

TEST_F(CatchUpFieldCase, G12_APatchThatIsCorruptOnTheBoardIsAnErrorAndTheOldVersionStays) {
  PublishVersions(1);
  Must(CatchUp(run_, reader_));
  PublishVersions(1);
  const ObjectRef patch = Must(board_.ReadManifest(run_, Version(2))).edges[0].parts[0].object;
  Bytes content = Must(board_.ReadObject(patch, 1 << 20));
  content[30] ^= std::byte{1};
  Must(store_->Delete(patch.key));
  Must(board_.PutObject(patch.key, MemorySource(content)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kCorrupt, HasSubstr(patch.key)));
    ExpectAt(1);
  }
}

TEST_F(CatchUpFieldCase, G16_ALocalCheckpointOfAnotherRevisionIsRefused) {
  PublishVersions(1);
  Must(CatchUp(run_, reader_));
  CheckpointState state = *Must(ReadState(DefaultStateDirectory(reader_)));
  // The same run and number, but of a history that the board does not have.
  TestModel other = model_;
  other.Nudge(0.5, random_);
  WriteCheckpoint(other, directory_ / "other", form_);
  const Checkpoint checkpoint = Must(Checkpoint::Open(directory_ / "other"));
  state.tensors = Must(DigestTensors(checkpoint, 1, Progress::None()));
  state.model = ModelDigest(checkpoint.layout().tensors_digest(), state.tensors);
  std::filesystem::create_directories(DefaultStateDirectory(directory_ / "other"));
  Must(WriteState(DefaultStateDirectory(directory_ / "other"), state));
  const auto before = FilesOf(directory_ / "other");
  EXPECT_THAT(CatchUp(run_, directory_ / "other"), Fails(Code::kMismatch, HasSubstr(state.model.Short())));
  EXPECT_EQ(FilesOf(directory_ / "other"), before);
}

TEST_F(CatchUpFieldCase, G14_ASecondReaderOfTheSameDirectoryIsToldSo) {
  PublishVersions(1);
  Must(CatchUp(run_, reader_));
  const CanonicalCheckpoint holder =
      Must(CanonicalCheckpoint::Open(reader_, DefaultStateDirectory(reader_), 1, Progress::None()));
  EXPECT_THAT(CatchUp(run_, reader_), Fails(Code::kConflict, HasSubstr("lock")));
}

}  // namespace
}  // namespace skerry
