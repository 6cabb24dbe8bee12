#include "skerry/apply/rebuild.h"

#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<RebuildReceipt> Rebuild(const Path& base, const Patch& patch, const Path& output, bool write_state = false,
                               int threads = 1) {
  SKERRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(base));
  return RebuildCheckpoint(checkpoint, {}, patch, output, {"run", Version(1)}, write_state, threads, Progress::None());
}

class RebuildTest : public ::testing::Test, protected TwoVersions {
 protected:
  // Builds v0 -> `target` (a name below the directory) and expects the target's very files.
  void ExpectRebuilt(const std::string& target_name, const EncodeOptions& options = {}) {
    const Patch patch = Must(Patch::FromBytes(PatchBetween(directory / "v0", directory / target_name, options)));
    const Path output = directory / (target_name + ".out");
    const RebuildReceipt receipt = Must(Rebuild(directory / "v0", patch, output, false, 2));
    EXPECT_EQ(receipt.changed, patch.info().changed);
    EXPECT_EQ(FilesOf(output), FilesOf(directory / target_name));
    EXPECT_EQ(FilesOf(directory / "v0"), v0) << "the base is only read";
  }
  std::vector<std::string> NamesBeside() { return NamesIn(directory.path()); }
};

TEST_F(RebuildTest, MakesTheTargetsFilesByteForByte) { ExpectRebuilt("v1"); }

TEST(FieldCase, C5_ShardsThatAreCutAnewAreRebuiltAndOneElementIsOneChange) {
  TwoVersions versions;
  TestModel next = versions.base;
  next["model.embed.weight"].bytes[10] ^= std::byte{1};
  WriteCheckpoint(next, versions.directory / "three", {.shards = 3, .reversed = true});
  const Patch patch = Must(Patch::FromBytes(PatchBetween(versions.directory / "v0", versions.directory / "three")));
  EXPECT_EQ(patch.info().changed, 1u);
  Must(Rebuild(versions.directory / "v0", patch, versions.directory / "out"));
  EXPECT_EQ(FilesOf(versions.directory / "out"), FilesOf(versions.directory / "three"));
  // The base may itself be cut another way: tensors are found by name.
  WriteCheckpoint(versions.base, versions.directory / "one-file");
  Must(Rebuild(versions.directory / "one-file", patch, versions.directory / "out-2"));
  EXPECT_EQ(FilesOf(versions.directory / "out-2"), FilesOf(versions.directory / "three"));
}

TEST(FieldCase, C5_ABaseWhoseIndexWouldNotFitTheResultIsRefusedAndNothingIsMade) {
  TwoVersions versions;
  WriteCheckpoint(versions.base, versions.directory / "one-file");
  WriteCheckpoint(versions.base, versions.directory / "turned", {.reversed = true});
  // Knows of no index to remove; v0 has one.
  const Patch patch =
      Must(Patch::FromBytes(PatchBetween(versions.directory / "one-file", versions.directory / "turned")));
  const auto names = NamesIn(versions.directory.path());
  EXPECT_THAT(Rebuild(versions.directory / "v0", patch, versions.directory / "out"),
              Fails(Code::kMismatch, AllOf(HasSubstr(patch.info().base_layout.Short()), HasSubstr("index"))));
  EXPECT_EQ(NamesIn(versions.directory.path()), names);
}

TEST(FieldCase, C5_APatchThatLeavesTheFilesLayoutAloneWorksOnAnyCutOfTheTensors) {
  TwoVersions versions;
  TestModel next = versions.base;
  next.Nudge(0.05, versions.random_);
  next.side_files["config.json"] = "next";
  WriteCheckpoint(next, versions.directory / "next", {.shards = 2});
  const Patch patch = Must(Patch::FromBytes(PatchBetween(versions.directory / "v0", versions.directory / "next")));
  WriteCheckpoint(versions.base, versions.directory / "one-file", {.reversed = true});
  WriteCheckpoint(next, versions.directory / "next-one-file", {.reversed = true});
  Must(Rebuild(versions.directory / "one-file", patch, versions.directory / "out"));
  EXPECT_EQ(FilesOf(versions.directory / "out"), FilesOf(versions.directory / "next-one-file"));
  Must(OpenAndApply(versions.directory / "one-file", patch));
  EXPECT_EQ(FilesOf(versions.directory / "one-file"), FilesOf(versions.directory / "next-one-file"));
}

TEST(FieldCase, B11_TheHeadersMetadataIsKeptByteForByte) {
  TwoVersions versions;
  for (const auto& metadata :
       {std::optional<std::string>("{}"), std::optional<std::string>(), std::optional<std::string>(R"({"a":"b"})")}) {
    const Path target = versions.directory / "target", output = versions.directory / "out";
    WriteCheckpoint(versions.target, target, {.metadata = metadata, .header_multiple = 1});
    Must(Rebuild(versions.directory / "v0", Must(Patch::FromBytes(PatchBetween(versions.directory / "v0", target))),
                 output));
    EXPECT_EQ(FilesOf(output), FilesOf(target));
    std::filesystem::remove_all(output);
  }
}

TEST(FieldCase, A16_StructuralTargetsAreRebuiltWhenAllowed) {
  TwoVersions versions;
  TestModel next = versions.target;
  next.tensors.erase(next.tensors.begin());
  next["model.layers.0.mlp.weight"].shape = {101, 48};
  next["model.layers.0.gate.bias"] = RandomTensor("model.layers.0.gate.bias", DType::kBF16, {37}, versions.random_);
  next.tensors.push_back(RandomTensor("model.new", DType::kF16, {3, 70'000}, versions.random_));
  WriteCheckpoint(next, versions.directory / "next", {.shards = 3});
  const Patch patch = Must(Patch::FromBytes(
      PatchBetween(versions.directory / "v0", versions.directory / "next", {.threads = 2, .allow_structural = true})));
  Must(Rebuild(versions.directory / "v0", patch, versions.directory / "out"));
  EXPECT_EQ(FilesOf(versions.directory / "out"), FilesOf(versions.directory / "next"));
  EXPECT_THAT(OpenAndApply(versions.Work(), patch), Fails(Code::kInvalid, HasSubstr("in place")));
}

TEST_F(RebuildTest, TheStateIsThatOfTheTarget) {
  const RebuildReceipt receipt = Must(Rebuild(directory / "v0", ThePatch(), directory / "out", /*write_state=*/true));
  const CanonicalCheckpoint canonical = Must(OpenCanonical(directory / "out"));
  EXPECT_EQ(canonical.state().model, ThePatch().info().target_model);
  EXPECT_EQ(canonical.state().label, (VersionLabel{"run", Version(1)}));
  EXPECT_EQ(canonical.state().tensors, receipt.state.tensors);
  EXPECT_EQ(receipt.state.tensors, Must(DigestTensors(canonical.checkpoint(), 1, Progress::None())));
  Must(Rebuild(directory / "v0", ThePatch(), directory / "stateless", /*write_state=*/false));
  EXPECT_FALSE(std::filesystem::exists(DefaultStateDirectory(directory / "stateless")));
}

TEST_F(RebuildTest, LeavesWhatIsThereAlone) {
  WriteText(directory / "out" / "mine", "x");
  EXPECT_THAT(Rebuild(directory / "v0", ThePatch(), directory / "out"), Fails(Code::kConflict, HasSubstr("exists")));
  EXPECT_EQ(FilesOf(directory / "out").size(), 1u);
}

TEST_F(RebuildTest, RefusesAnotherBaseBeforeAnythingIsMade) {
  const auto names = NamesBeside();
  EXPECT_THAT(Rebuild(directory / "v1", ThePatch(), directory / "out"),
              Fails(Code::kMismatch, AllOf(HasSubstr(ThePatch().info().base_model.Short()),
                                           HasSubstr(ThePatch().info().target_model.Short()))));
  EXPECT_EQ(NamesBeside(), names);
}

TEST_F(RebuildTest, AFailureAnywhereLeavesAllOrNothing) {
  const auto names = NamesBeside();
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("rebuild.")) continue;
    const Path output = directory / "out";
    {
      const WithFailpoints with(fmt::format("{}:error", name));
      EXPECT_THAT(Rebuild(directory / "v0", ThePatch(), output), Fails(Code::kIo, HasSubstr(std::string(name))));
    }
    if (name == "rebuild.renamed") {
      EXPECT_EQ(FilesOf(output), v1);
      std::filesystem::remove_all(output);
    }
    EXPECT_EQ(NamesBeside(), names) << name;
  }
}

TEST_F(RebuildTest, AFullDiskAtAnyWriteLeavesNothing) {
  WriteCheckpoint(target, directory / "three", {.shards = 3});
  const Patch patch = Must(Patch::FromBytes(PatchBetween(directory / "v0", directory / "three")));
  const auto names = NamesBeside();
  int failures = 0;
  for (int hit = 1; hit < 300; ++hit) {
    Result<RebuildReceipt> rebuilt = RebuildReceipt();
    {
      const WithFailpoints with(fmt::format("file.write:errno=28@{}", hit));
      rebuilt = Rebuild(directory / "v0", patch, directory / "out", /*write_state=*/true);
    }
    if (rebuilt) break;
    EXPECT_EQ(rebuilt.error().code, Code::kNoSpace);
    EXPECT_EQ(NamesBeside(), names) << hit;
    ++failures;
  }
  EXPECT_GT(failures, 10);
  EXPECT_EQ(FilesOf(directory / "out"), FilesOf(directory / "three"));
}

TEST(FieldCase, B18_WithoutMappingsARebuildIsTheSame) {
  TwoVersions versions;
  WriteCheckpoint(versions.target, versions.directory / "three", {.shards = 3});
  const Patch patch = Must(Patch::FromBytes(PatchBetween(versions.directory / "v0", versions.directory / "three")));
  const WithFailpoints with("file.map:errno=12");
  Must(Rebuild(versions.directory / "v0", patch, versions.directory / "out", true, 2));
  EXPECT_EQ(FilesOf(versions.directory / "out"), FilesOf(versions.directory / "three"));
}

TEST_F(RebuildTest, GivenDigestsThatTheBaseDoesNotHaveAreFoundOut) {
  const Checkpoint checkpoint = Must(Checkpoint::Open(directory / "v0"));
  const std::vector<RunningDigest> digests = Must(DigestTensors(checkpoint, 1, Progress::None()));
  const ModelSource source(base);
  const uint64_t touched = PositionsIn(ThePatch(), source)[0].second[0];
  const LayoutTensor& tensor = checkpoint.layout().tensors()[0];
  ASSERT_EQ(tensor.name, "model.embed.weight");
  const Path file = directory / "v0" / checkpoint.layout().files()[tensor.file].name;
  std::string bytes = ReadText(file);
  bytes[tensor.offset_in_file + 2 * touched] ^= 0x20;
  WriteText(file, bytes);
  const auto names = NamesBeside();
  const Checkpoint damaged = Must(Checkpoint::Open(directory / "v0"));
  EXPECT_THAT(RebuildCheckpoint(damaged, digests, ThePatch(), directory / "out", {}, false, 1, Progress::None()),
              Fails(Code::kCorrupt));
  EXPECT_EQ(NamesBeside(), names);
}

}  // namespace
}  // namespace skerry
