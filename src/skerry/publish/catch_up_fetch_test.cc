// apply/catch_up.h as an agent uses it: many versions at once, a shared cache, runs that come late or change.
#include <atomic>
#include <thread>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/catch_up.h"
#include "skerry/apply/content_lock.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CatchUpFetchTest : public PublishTestBase {
 protected:
  CatchUpFetchTest() {
    versions_[run_][0] = FilesOf(Export());
    Must(Init(run_));
    options_.patience = {.limit = std::chrono::milliseconds(300), .sleep = [](std::chrono::milliseconds) {}};
  }
  void PublishVersions(int count, const RunId& run) {
    for (int i = 0; i < count; ++i) {
      Step();
      Must(Publish(run));
    }
  }
  void PublishVersions(int count) { PublishVersions(count, run_); }
  Result<CatchUpReceipt> CatchUp(const RunId& run, const Path& directory) const {
    return skerry::CatchUp(board_, run, directory, options_, Progress::None());
  }
  Result<CatchUpReceipt> CatchUp() const { return CatchUp(run_, reader_); }
  void ExpectAt(const RunId& run, uint64_t version) {
    EXPECT_EQ(FilesOf(reader_), versions_[run][version]);
    EXPECT_EQ(Must(ReadState(DefaultStateDirectory(reader_)))->label, (VersionLabel{run.str(), Version(version)}));
  }
  uint64_t PatchBytes(uint64_t version) {
    return Must(board_.ReadManifest(run_, Version(version))).edges[0].parts[0].object.size;
  }

  const Path reader_ = directory_ / "readers" / "one";
  CatchUpOptions options_;
};
using CatchUpFetchFieldCase = CatchUpFetchTest;

TEST_F(CatchUpFetchFieldCase, G4_TwentyFourVersionsAreAtMostTwentyFourAppliesAndNoReplayFromTheAnchor) {
  Must(CatchUp());
  uint64_t patches = 0;
  for (int i = 0; i < 24; ++i) {
    PublishVersions(1);
    const CatchUpReceipt receipt = Must(CatchUp());
    EXPECT_FALSE(receipt.anchor);
    patches += receipt.patches;
  }
  EXPECT_EQ(patches, 24u);
  ExpectAt(run_, 24);
}

TEST_F(CatchUpFetchFieldCase, G4_SeveralVersionsBehindIsOneCallThatSaysWhatItDoes) {
  Must(CatchUp());
  PublishVersions(20);
  std::vector<std::string> stages;
  std::vector<Version> targets;
  options_.on_stage = [&](std::string_view stage) { stages.emplace_back(stage); };
  options_.on_route = [&](const Route& route) { targets.push_back(route.target.version); };
  const CatchUpReceipt receipt = Must(CatchUp());
  ExpectAt(run_, 20);
  EXPECT_THAT(targets, ElementsAre(Version(20)));
  EXPECT_EQ(stages.front(), "plan");
  EXPECT_EQ(stages.back(), "apply");
  EXPECT_LE(receipt.patches, 20u);
  EXPECT_GE(receipt.patches, 1u);
  EXPECT_EQ(receipt.deltas + receipt.skips, receipt.patches);
  uint64_t elements = 0;
  for (const TestTensor& tensor : model_.tensors) elements += tensor.units();
  EXPECT_EQ(receipt.elements, elements);
  EXPECT_GT(receipt.changed, 0u);
  EXPECT_GT(receipt.journal_bytes, 0u);
  EXPECT_LE(receipt.decode_seconds + receipt.journal_seconds + receipt.write_seconds + receipt.sync_seconds,
            receipt.apply_seconds);
  EXPECT_THAT(NamesIn(DefaultStateDirectory(reader_)), ::testing::Not(::testing::Contains("objects")));
}

TEST_F(CatchUpFetchTest, AVersionInOtherShardsAmongOthersIsPassedWhicheverWayObjectsAreKept) {
  PublishVersions(1);
  Must(CatchUp());
  PublishVersions(2);
  form_.shards = 3;
  PublishVersions(3);
  std::filesystem::copy(reader_, directory_ / "two", std::filesystem::copy_options::recursive);
  const CatchUpReceipt receipt = Must(CatchUp());
  EXPECT_EQ(receipt.rebuilds, 1u);
  ExpectAt(run_, 6);
  options_.cache = {.bytes = 1 << 20, .directory = directory_ / "objects"};
  Must(CatchUp(run_, directory_ / "two"));
  EXPECT_EQ(FilesOf(directory_ / "two"), versions_[run_][6]);
}

TEST_F(CatchUpFetchTest, ThereAndBackAndThereAgainFetchesPatchesOnce) {
  options_.cache.bytes = 1 << 20;
  options_.canonical.undo.versions = 10;
  Must(CatchUp());
  PublishVersions(3);
  EXPECT_GT(Must(CatchUp()).bytes_fetched, 0u);
  {
    CanonicalCheckpoint canonical = Must(
        CanonicalCheckpoint::Open(reader_, DefaultStateDirectory(reader_), 1, Progress::None(), options_.canonical));
    Must(canonical.RollBack({run_.str(), Version(1)}, 1, Progress::None()));
  }
  ExpectAt(run_, 1);
  const CatchUpReceipt receipt = Must(CatchUp());
  EXPECT_EQ(receipt.from, Version(1));
  EXPECT_EQ(receipt.bytes_fetched, 0u);
  ExpectAt(run_, 3);
}

// A trainer that went back and on again makes the same patch twice, one object under two names.
TEST_F(CatchUpFetchTest, ARouteMayHaveTheSamePatchTwice) {
  PublishVersions(1);
  Must(CatchUp());
  std::filesystem::copy(reader_, directory_ / "two", std::filesystem::copy_options::recursive);
  const TestModel there = model_;
  model_.Nudge(0.01, random_);
  const TestModel on = model_;
  for (const TestModel& model : {on, there, on, there, on}) {
    model_ = model;
    Must(Publish(run_));
  }
  ExpectAt(run_, 1);
  EXPECT_EQ(Must(CatchUp()).patches, 5u);
  ExpectAt(run_, 6);
  options_.cache = {.bytes = 1 << 20, .directory = directory_ / "objects"};
  Must(CatchUp(run_, directory_ / "two"));
  EXPECT_EQ(FilesOf(directory_ / "two"), versions_[run_][6]);
}

TEST_F(CatchUpFetchTest, AnOlderVersionIsReachedFromAnAnchorWhereItIsAskedFor) {
  options_.cache.bytes = 1 << 20;
  PublishVersions(3);
  Must(CatchUp());
  options_.version = Version(1);
  const CatchUpReceipt receipt = Must(CatchUp());
  EXPECT_TRUE(receipt.anchor);
  EXPECT_EQ(receipt.version, Version(1));
  ExpectAt(run_, 1);
  options_.version.reset();
  EXPECT_EQ(Must(CatchUp()).bytes_fetched, 0u);
  ExpectAt(run_, 3);
}

TEST_F(CatchUpFetchTest, ACacheBoundThatIsTooSmallIsSaidSoAndLeavesTheOldVersion) {
  Must(CatchUp());
  PublishVersions(1);
  const uint64_t patch = PatchBytes(1);
  options_.cache = {.bytes = patch - 1, .directory = directory_ / "objects"};
  EXPECT_THAT(CatchUp(),
              Fails(Code::kNoSpace, AllOf(HasSubstr(std::to_string(patch)), HasSubstr(std::to_string(patch - 1)))));
  ExpectAt(run_, 0);
  EXPECT_THAT(NamesIn(directory_ / "objects"), ElementsAre("lock"));
  options_.cache.bytes = patch;
  Must(CatchUp());
  ExpectAt(run_, 1);
}

TEST_F(CatchUpFetchTest, AFullDiskWhileFetchingIntoTheCacheLeavesTheOldVersionAndTheNextCallGetsThere) {
  Must(CatchUp());
  PublishVersions(2);
  options_.cache = {.bytes = 1 << 20, .directory = directory_ / "objects"};
  options_.fetch_parallel = 1;  // so that each hit is always the same write
  int failures = 0;
  for (int hit = 1; hit < 30; ++hit) {
    const WithFailpoints with(fmt::format("file.write:errno=28@{}", hit));
    std::filesystem::remove_all(directory_ / "objects");
    const Result<CatchUpReceipt> receipt = CatchUp();
    if (receipt) break;
    EXPECT_THAT(receipt, Fails(Code::kNoSpace));
    ++failures;
  }
  EXPECT_GT(failures, 3);
  Must(CatchUp());
  ExpectAt(run_, 2);
}

TEST_F(CatchUpFetchFieldCase, G14_FourReadersOfOneDirectoryFetchAndApplyOnce) {
  Must(CatchUp());
  PublishVersions(6);
  std::atomic<uint64_t> patches = 0, fetched = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      const CatchUpReceipt receipt = Must(CatchUp());
      EXPECT_EQ(receipt.version, Version(6));
      patches += receipt.patches;
      fetched += receipt.bytes_fetched;
    });
  }
  for (std::thread& reader : readers) reader.join();
  uint64_t all = 0;
  for (uint64_t version = 1; version <= 6; ++version) all += PatchBytes(version);
  EXPECT_EQ(patches, 6u);
  EXPECT_EQ(fetched, all);
  ExpectAt(run_, 6);
}

TEST_F(CatchUpFetchFieldCase, G14_FourCheckpointsWithOneCacheFetchOnce) {
  for (int i = 0; i < 4; ++i) Must(CatchUp(run_, directory_ / "readers" / std::to_string(i)));
  PublishVersions(6);
  options_.cache = {.bytes = 1 << 20, .directory = directory_ / "objects"};
  std::atomic<uint64_t> fetched = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back(
        [&, i] { fetched += Must(CatchUp(run_, directory_ / "readers" / std::to_string(i))).bytes_fetched; });
  }
  for (std::thread& reader : readers) reader.join();
  uint64_t all = 0;
  for (uint64_t version = 1; version <= 6; ++version) all += PatchBytes(version);
  EXPECT_EQ(fetched, all);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(FilesOf(directory_ / "readers" / std::to_string(i)), versions_[run_][6]);
  }
}

TEST_F(CatchUpFetchFieldCase, G13_ARunThatIsNotThereYetIsWaitedForWhereThatIsAskedFor) {
  const RunId late = Run("late");
  EXPECT_THAT(CatchUp(late, reader_), Fails(Code::kInvalid));
  options_.wait_for_run = true;
  EXPECT_THAT(CatchUp(late, reader_), Fails(Code::kUnavailable, AllOf(HasSubstr("not there yet"), HasSubstr("late"))));
  EXPECT_FALSE(std::filesystem::exists(reader_));
  int pauses = 0;
  options_.patience = {.limit = std::chrono::seconds(60), .sleep = [&](std::chrono::milliseconds) {
                         if (++pauses == 3) Must(Init(late));
                       }};
  EXPECT_EQ(Must(CatchUp(late, reader_)).version, Version(0));
  EXPECT_EQ(pauses, 3);
}

TEST_F(CatchUpFetchFieldCase, G13_AVersionThatIsNotThereYetIsWaitedForToo) {
  options_.version = Version(1);
  EXPECT_THAT(CatchUp(), Fails(Code::kInvalid, HasSubstr("asked for 1")));
  options_.wait_for_run = true;
  EXPECT_THAT(CatchUp(), Fails(Code::kUnavailable, AllOf(HasSubstr("not there yet"), HasSubstr("asked for 1"))));
  PublishVersions(1);
  Must(CatchUp());
  ExpectAt(run_, 1);
}

TEST_F(CatchUpFetchFieldCase, G11_ASwitchToAnotherRunReplacesTheCheckpointWhereThatIsAskedFor) {
  PublishVersions(2);
  Must(CatchUp());
  const RunId other = Run("other");
  Step(0.5);
  versions_[other][0] = FilesOf(Export());
  Must(Init(other));
  EXPECT_THAT(CatchUp(other, reader_), Fails(Code::kMismatch, HasSubstr("grpo-1 version 2")));
  ExpectAt(run_, 2);
  options_.replace_other_run = true;
  const CatchUpReceipt receipt = Must(CatchUp(other, reader_));
  EXPECT_EQ(receipt.replaced, "grpo-1 version 2");
  EXPECT_TRUE(receipt.anchor);
  EXPECT_EQ(receipt.from, std::nullopt);
  ExpectAt(other, 0);
  PublishVersions(1, other);
  EXPECT_THAT(Must(CatchUp(other, reader_)).replaced, IsEmpty());
  ExpectAt(other, 1);
}

TEST_F(CatchUpFetchFieldCase, G11_TheOtherRunStaysUntilTheNewOneIsComplete) {
  Must(CatchUp());
  const RunId other = Run("other");
  Must(Init(other));
  options_.replace_other_run = true;
  {
    const WithFailpoints with("pull.fetched:error");
    EXPECT_FALSE(CatchUp(other, reader_));
  }
  ExpectAt(run_, 0);
  WriteText(directory_ / "readers" / "foreign" / "precious.txt", "mine");
  EXPECT_THAT(CatchUp(other, directory_ / "readers" / "foreign"), Fails(Code::kConflict));
}

TEST_F(CatchUpFetchTest, ACheckpointThatIsKnownToBeDamagedIsReplacedAlsoAtTheVersionThatItSays) {
  PublishVersions(1);
  Must(CatchUp());
  const Path shard = reader_ / "model-00001-of-00002.safetensors";
  std::string bytes = ReadText(shard);
  bytes.back() ^= 1;
  WriteText(shard, bytes);
  EXPECT_THAT(Must(CatchUp()).healed, IsEmpty()) << "nothing that is touched shows it";
  options_.rebuild = true;
  EXPECT_EQ(Must(CatchUp()).healed, "it was known to be damaged");
  ExpectAt(run_, 1);
}

TEST_F(CatchUpFetchTest, ADirectoryIsNotReplacedWhileSomebodyReadsIt) {
  PublishVersions(2);
  Must(CatchUp());
  options_.version = Version(0);
  options_.canonical.content_patience = std::chrono::milliseconds(0);
  {
    const ContentLock reading = Must(ContentLock::Shared(reader_, std::chrono::milliseconds(0)));
    EXPECT_THAT(CatchUp(), Fails(Code::kUnavailable));
    ExpectAt(run_, 2);
  }
  EXPECT_EQ(Must(CatchUp()).bytes_fetched, 0u) << "all was ready";
  ExpectAt(run_, 0);
}

}  // namespace
}  // namespace skerry
