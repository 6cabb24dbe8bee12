#include "skerry/apply/scrub.h"

#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

VersionLabel Label(uint64_t version) { return {"run", Version(version)}; }

TEST(ScrubPace, GivesWhatTheRateSaysAndMakesUpForNothing) {
  ScrubPace pace(1000);
  const auto start = std::chrono::steady_clock::time_point(std::chrono::hours(1));
  EXPECT_EQ(pace.Due(start), 0u);
  EXPECT_EQ(pace.Due(start + milliseconds(250)), 250u);
  EXPECT_EQ(pace.Due(start + milliseconds(250)), 0u);
  EXPECT_EQ(pace.Due(start + std::chrono::hours(2)), 1000u);
}

class ScrubberTest : public ::testing::Test, protected TwoVersions {
 protected:
  ScrubberTest() {
    canonical_.emplace(Must(OpenCanonical(work_)));
    Must(canonical_->Relabel(Label(0)));
    // Writes the state, which a checkpoint that was only opened has not got.
  }

  // Reads on in small steps to the end of a round; the findings.
  std::vector<std::string> Round(Scrubber& scrubber, uint64_t step = 1000) {
    std::vector<std::string> findings;
    for (int i = 0; i < 100'000; ++i) {
      const auto done = scrubber.ScrubSome(step);
      if (!done && done.error().code != Code::kCorrupt) throw std::runtime_error(Outcome(done));
      if (!done) findings.push_back(done.error().message);
      if (done && done->round_done) return findings;
    }
    throw std::runtime_error("no end");
  }
  void Damage(const Path& file, uint64_t at) {
    const File opened = Must(File::OpenForWriting(file));
    Bytes byte(1);
    Must(opened.ReadAt(byte, at));
    byte[0] ^= std::byte{0x20};
    Must(opened.WriteAt(byte, at));
  }
  // Of a byte of a tensor: shard and place in it.
  std::pair<Path, uint64_t> PlaceOf(std::string_view name, uint64_t byte) const {
    const Layout& layout = canonical_->checkpoint().layout();
    const LayoutTensor& tensor = layout.tensors()[static_cast<size_t>(layout.Find(name))];
    return {work_ / layout.files()[tensor.file].name, tensor.offset_in_file + byte};
  }

  const Path work_ = Work();
  std::optional<CanonicalCheckpoint> canonical_;
};

TEST_F(ScrubberTest, FindsNothingInAnIntactCheckpointAndReadsAllOfIt) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  uint64_t side_bytes = 0;
  for (const SideFileInfo& file : canonical_->checkpoint().side_files()) side_bytes += file.size;
  uint64_t read = 0;
  while (true) {
    const ScrubStep step = Must(scrubber.ScrubSome(500));
    read += step.bytes;
    if (step.round_done) break;
  }
  EXPECT_EQ(read, canonical_->checkpoint().layout().total_bytes() + side_bytes);
  EXPECT_TRUE(Round(scrubber).empty());
  EXPECT_EQ(scrubber.rounds(), 2u);
}

TEST_F(ScrubberTest, NamesTensorFileAndBothDigestsOnceARound) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  EXPECT_TRUE(Round(scrubber).empty());
  const auto [shard, at] = PlaceOf("model.layers.0.mlp.weight", 5000);
  Damage(shard, at);
  for (int round = 0; round < 2; ++round) {
    const std::vector<std::string> findings = Round(scrubber);
    ASSERT_EQ(findings.size(), 1u);
    const Layout& layout = canonical_->checkpoint().layout();
    const RunningDigest known =
        canonical_->state().tensors[static_cast<size_t>(layout.Find("model.layers.0.mlp.weight"))];
    EXPECT_THAT(findings[0], AllOf(HasSubstr("model.layers.0.mlp.weight"), HasSubstr(shard.filename().string()),
                                   HasSubstr(fmt::format("{:016x}{:016x}", known.a, known.b))));
  }
}

TEST_F(ScrubberTest, FindsAChangedSideFile) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  EXPECT_TRUE(Round(scrubber).empty());
  WriteText(work_ / "config.json", "{}");
  const auto findings = Round(scrubber);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0], HasSubstr("config.json"));
}

TEST_F(ScrubberTest, KnowsSideFilesFromTheManifest) {
  WriteText(work_ / "config.json", "{}");
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  scrubber.ExpectSideFiles(Label(0), {{"config.json", 20, Sha256::Of(R"({"hidden_size":96})")}});
  const auto findings = Round(scrubber);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0],
              AllOf(HasSubstr("config.json"), HasSubstr("manifest says"), HasSubstr(Sha256::Of("{}").Hex())));
}

TEST_F(ScrubberTest, MissesASideFileThatTheManifestNames) {
  std::filesystem::remove(work_ / "config.json");
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  EXPECT_TRUE(Round(scrubber).empty()) << "nobody said that there should be one";
  scrubber.ExpectSideFiles(Label(0), {{"config.json", 20, Sha256::Of(R"({"hidden_size":96})")}});
  const auto findings = Round(scrubber);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0], HasSubstr("config.json"));
}

TEST_F(ScrubberTest, LeavesFilesAloneThatTheManifestDoesNotName) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  scrubber.ExpectSideFiles(Label(0), {{"config.json", 20, Sha256::Of(R"({"hidden_size":96})")}});
  WriteText(work_ / "notes.json", "{}");
  EXPECT_TRUE(Round(scrubber).empty());
  WriteText(work_ / "notes.json", "[]");
  EXPECT_TRUE(Round(scrubber).empty());
}

TEST_F(ScrubberTest, FindsADamagedHeader) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  const auto [shard, at] = PlaceOf("model.layers.0.mlp.weight", 0);
  std::string text = ReadText(shard);
  text.replace(text.find("\"pt\""), 4, "\"np\"");
  WriteText(shard, text);
  EXPECT_THAT(scrubber.ScrubSome(1), Fails(Code::kCorrupt, HasSubstr("layout")));
}

TEST_F(ScrubberTest, FindsAShardThatShrinks) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  Must(scrubber.ScrubSome(1));
  const auto [shard, at] = PlaceOf("model.layers.0.mlp.weight", 0);
  std::filesystem::resize_file(shard, 100);
  EXPECT_FALSE(Round(scrubber).empty());
}

TEST_F(ScrubberTest, AMoveInBetweenIsNoFalseAlarm) {
  const Patch there = ThePatch();
  const Patch back = Must(Patch::FromBytes(PatchBetween(directory / "v1", directory / "v0")));
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  for (uint64_t moves = 0; moves < 60; ++moves) {
    for (uint64_t steps = 0; steps <= moves % 5; ++steps) Must(scrubber.ScrubSome(700));
    Must(canonical_->Apply(moves % 2 == 0 ? there : back, Label(moves + 1), 1, Progress::None()));
  }
  EXPECT_GE(scrubber.rounds(), 1u) << "and it gets on all the same";
  EXPECT_TRUE(Round(scrubber).empty());
}

// Away and back to the same version: label, model and bytes at the end are those of the beginning.
TEST_F(ScrubberTest, AMoveThereAndBackIsNoticed) {
  const auto digests = canonical_->state().tensors;
  CanonicalCheckpoint moving = *std::move(canonical_);
  canonical_.reset();
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  Must(scrubber.ScrubSome(1));  // up to the middle of the first tensor, which the patch changes
  Must(moving.Apply(ThePatch(), Label(1), 1, Progress::None()));
  Must(scrubber.ScrubSome(1));
  const Patch back = Must(Patch::FromBytes(PatchBetween(directory / "v1", directory / "v0")));
  Must(moving.Apply(back, Label(0), 1, Progress::None()));
  EXPECT_EQ(moving.state().tensors, digests);
  EXPECT_TRUE(Round(scrubber).empty());
}

TEST_F(ScrubberTest, AnInterruptedApplyIsNoFinding) {
  Scrubber scrubber(work_, DefaultStateDirectory(work_));
  Must(scrubber.ScrubSome(1));
  {
    const WithFailpoints with("apply.tensors_half_written:error");
    EXPECT_FALSE(canonical_->Apply(ThePatch(), Label(1), 1, Progress::None()));
  }
  EXPECT_THAT(scrubber.ScrubSome(1'000'000), Fails(Code::kUnavailable, HasSubstr("interrupted")));
  canonical_.reset();
  canonical_.emplace(Must(OpenCanonical(work_)));
  EXPECT_TRUE(Round(scrubber).empty());
}

TEST_F(ScrubberTest, WithoutAStateThereIsNothingToCompareWith) {
  Scrubber scrubber(directory / "v1", DefaultStateDirectory(directory / "v1"));
  EXPECT_THAT(scrubber.ScrubSome(1), Fails(Code::kNotFound));
}

}  // namespace
}  // namespace skerry
