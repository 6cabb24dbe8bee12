#include "skerry/apply/canonical_checkpoint.h"

#include <thread>

#include "skerry/apply/journal.h"
#include "skerry/patch/sparse_flat.h"
#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

VersionLabel Label(uint64_t version) { return {"run", Version(version)}; }

// What a crash at some point may leave: exactly the old or exactly the new version, and the state says which.
bool IsExactly(const std::map<std::string, std::string>& files, const CheckpointState& state, const Digest& model,
               const Path& directory) {
  return FilesOf(directory) == files && state.model == model;
}

class CanonicalCheckpointTest : public ::testing::Test, protected TwoVersions {
 protected:
  Digest BaseModel() const { return patch_.info().base_model; }
  Digest TargetModel() const { return patch_.info().target_model; }

  // Opens what a failed apply left, expects one of both versions, then applies and expects the new one. Returns whether
  // it was the new one already.
  bool ExpectOldOrNewThenNew(const Path& work) {
    bool was_new = false;
    {
      CanonicalCheckpoint canonical = Must(OpenCanonical(work));
      was_new = canonical.state().model == TargetModel();
      EXPECT_TRUE(IsExactly(v0, canonical.state(), BaseModel(), work) ||
                  IsExactly(v1, canonical.state(), TargetModel(), work));
      EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
      EXPECT_EQ(canonical.state().tensors, Must(DigestTensors(canonical.checkpoint(), 1, Progress::None())));
      EXPECT_THAT(canonical.Apply(patch_, Label(1), 1, Progress::None()), Succeeds());
    }
    EXPECT_EQ(FilesOf(work), v1);
    EXPECT_EQ(Must(OpenCanonical(work)).state().label, Label(1));
    EXPECT_FALSE(std::filesystem::exists(DefaultStateDirectory(work) / "journal.unfinished"));
    return was_new;
  }

  Patch patch_ = ThePatch();
};

TEST_F(CanonicalCheckpointTest, ApplyMakesEveryFileTheTargetsByteForByte) {
  for (const int threads : {1, 2, 4}) {
    const Path work = Work();
    const ApplyReceipt receipt = Must(OpenAndApply(work, patch_, Label(1), threads));
    EXPECT_EQ(receipt.changed, patch_.info().changed);
    EXPECT_GT(receipt.journal_bytes, 0u);
    EXPECT_EQ(FilesOf(work), v1);
    const CanonicalCheckpoint canonical = Must(OpenCanonical(work));
    EXPECT_EQ(canonical.state().model, TargetModel());
    EXPECT_EQ(canonical.state().label, Label(1));
    EXPECT_EQ(canonical.state().tensors, Must(DigestTensors(canonical.checkpoint(), 1, Progress::None())));
  }
}

TEST_F(CanonicalCheckpointTest, MovesOnAfterAnApplyWithoutBeingOpenedAgain) {
  const Path work = Work();
  TestModel third = target;
  third.Nudge(0.02, random_);
  WriteCheckpoint(third, directory / "v2", {.shards = 2, .index_metadata = R"({"total_size":2})"});
  CanonicalCheckpoint canonical = Must(OpenCanonical(work));
  Must(canonical.Apply(patch_, Label(1), 1, Progress::None()));
  Must(canonical.Apply(Must(Patch::FromBytes(PatchBetween(directory / "v1", directory / "v2"))), Label(2), 1,
                       Progress::None()));
  EXPECT_EQ(FilesOf(work), FilesOf(directory / "v2"));
}

TEST_F(CanonicalCheckpointTest, AStateDirectoryMayLieElsewhere) {
  const Path work = Work(), elsewhere = directory / "state" / "here";
  {
    CanonicalCheckpoint canonical = Must(CanonicalCheckpoint::Open(work, elsewhere, 2, Progress::None()));
    Must(canonical.Apply(patch_, Label(1), 1, Progress::None()));
  }
  EXPECT_EQ(FilesOf(work), v1);
  EXPECT_FALSE(std::filesystem::exists(DefaultStateDirectory(work)));
  EXPECT_TRUE(Must(ReadState(elsewhere)).has_value());
}

TEST_F(CanonicalCheckpointTest, AnEmptyPatchChangesNothingButTheLabel) {
  const Path work = Work();
  const Patch empty = Must(Patch::FromBytes(PatchBetween(directory / "v0", directory / "v0")));
  const ApplyReceipt receipt = Must(OpenAndApply(work, empty, Label(5)));
  EXPECT_EQ(receipt.changed, 0u);
  EXPECT_EQ(FilesOf(work), v0);
  EXPECT_EQ(Must(OpenCanonical(work)).state().label, Label(5));
}

TEST(FieldCase, A11a_ApplyingTwiceIsANoOp) {
  TwoVersions versions;
  const Path work = versions.Work();
  Must(OpenAndApply(work, versions.ThePatch(), Label(1)));
  const ApplyReceipt again = Must(OpenAndApply(work, versions.ThePatch(), Label(1)));
  EXPECT_EQ(again.changed, 0u);
  EXPECT_EQ(FilesOf(work), versions.v1);
}

TEST_F(CanonicalCheckpointTest, AFailureAnywhereLeavesTheOldOrTheNewVersion) {
  const std::map<std::string, bool> leaves_the_new_one = {
      {"apply.journal_begun", false},       {"apply.journal_written", false}, {"apply.journal_committed", true},
      {"apply.tensors_half_written", true}, {"apply.tensors_written", true},  {"apply.files_written", true},
      {"apply.state_written", true},        {"apply.journal_removed", true}};
  int seen = 0;
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("apply.")) continue;
    SCOPED_TRACE(name);
    const Path work = Work();
    {
      CanonicalCheckpoint canonical = Must(OpenCanonical(work));
      const WithFailpoints with(fmt::format("{}:error", name));
      EXPECT_THAT(canonical.Apply(patch_, Label(1), 1, Progress::None()),
                  Fails(Code::kIo, HasSubstr(std::string(name))));
    }
    EXPECT_EQ(ExpectOldOrNewThenNew(work), leaves_the_new_one.at(std::string(name)));
    ++seen;
  }
  EXPECT_EQ(seen, static_cast<int>(leaves_the_new_one.size()));
}

TEST_F(CanonicalCheckpointTest, ARecoveryThatFailsTooCanBeRepeated) {
  for (const char* name : {"apply.tensors_half_written", "apply.tensors_written", "apply.files_written",
                           "apply.state_written", "apply.journal_removed"}) {
    SCOPED_TRACE(name);
    const Path work = Work();
    {
      const WithFailpoints with("apply.tensors_half_written:error");
      EXPECT_FALSE(OpenAndApply(work, patch_, Label(1)));
    }
    for (int i = 0; i < 2; ++i) {
      const WithFailpoints with(fmt::format("{}:error", name));
      if (i == 1 && name == std::string_view("apply.journal_removed")) break;
      EXPECT_THAT(OpenCanonical(work), Fails(Code::kIo));
    }
    EXPECT_TRUE(ExpectOldOrNewThenNew(work));
  }
}

class SystemCallFails : public CanonicalCheckpointTest, public ::testing::WithParamInterface<const char*> {};

// The K-th call of its kind fails, for every K that an apply gets to.
TEST_P(SystemCallFails, AtAnyCallAndTheOldOrTheNewVersionIsIntact) {
  int failures = 0, old = 0;
  for (int hit = 1; hit < 200; ++hit) {
    SCOPED_TRACE(fmt::format("{}@{}", GetParam(), hit));
    const Path work = Work();
    Result<ApplyReceipt> applied = ApplyReceipt();
    {
      CanonicalCheckpoint canonical = Must(OpenCanonical(work));
      const WithFailpoints with(fmt::format("{}@{}", GetParam(), hit));
      applied = canonical.Apply(patch_, Label(1), 2, Progress::None());
    }
    if (applied) {
      EXPECT_EQ(FilesOf(work), v1);
      break;
    }
    EXPECT_EQ(applied.error().code == Code::kNoSpace, std::string_view(GetParam()).ends_with("errno=28"))
        << Outcome(applied);
    ++failures;
    old += !ExpectOldOrNewThenNew(work);
    std::filesystem::remove_all(work);
  }
  EXPECT_GE(failures, 2);
  EXPECT_GE(old, 1) << "the first call comes before the journal is committed";
}

INSTANTIATE_TEST_SUITE_P(Each, SystemCallFails,
                         ::testing::Values("file.write:errno=28", "file.sync:errno=5", "file.rename:errno=13",
                                           "file.open:errno=24", "file.map:errno=12,file.write:errno=28"));

TEST(FieldCase, A12_APatchForAnotherVersionOrModelIsRefusedNamingBothDigests) {
  TwoVersions versions;
  TestModel second = versions.target, third = versions.target;
  second.Nudge(0.01, versions.random_);
  third = second;
  third.Nudge(0.01, versions.random_);
  WriteCheckpoint(second, versions.directory / "v2", {.shards = 2});
  WriteCheckpoint(third, versions.directory / "v3", {.shards = 2});
  const Patch p3 = Must(Patch::FromBytes(PatchBetween(versions.directory / "v2", versions.directory / "v3")));

  const Path at_v1 = versions.directory / "at_v1";
  std::filesystem::copy(versions.directory / "v1", at_v1, std::filesystem::copy_options::recursive);
  EXPECT_THAT(OpenAndApply(at_v1, p3),
              Fails(Code::kMismatch, AllOf(HasSubstr(p3.info().base_model.Short()),
                                           HasSubstr(versions.ThePatch().info().target_model.Short()))));
  EXPECT_EQ(FilesOf(at_v1), versions.v1);

  TestModel other = versions.base;
  other.Nudge(0.5, versions.random_);
  WriteCheckpoint(other, versions.directory / "other", {.shards = 2});
  const auto before = FilesOf(versions.directory / "other");
  EXPECT_THAT(OpenAndApply(versions.directory / "other", versions.ThePatch()),
              Fails(Code::kMismatch, HasSubstr(versions.ThePatch().info().base_model.Short())));
  EXPECT_EQ(FilesOf(versions.directory / "other"), before);
  EXPECT_FALSE(std::filesystem::exists(versions.directory / "other" / ".skerry" / "journal.unfinished"));
}

TEST(FieldCase, A12_APatchForOtherTensorsIsRefusedNamingOneOfThem) {
  TwoVersions versions;
  TestModel other = versions.base;
  std::erase_if(other.tensors, [](const TestTensor& tensor) { return tensor.name == "model.embed.weight"; });
  WriteCheckpoint(other, versions.directory / "other");
  EXPECT_THAT(OpenAndApply(versions.directory / "other", versions.ThePatch()),
              Fails(Code::kMismatch, HasSubstr("no tensor 'model.embed.weight'")));
}

TEST(FieldCase, A13_AnExportThatIsNotByteEqualIsNeverPatched) {
  TwoVersions versions;
  // The agent's copy: one value differs in the sign of a zero, in another split of the files.
  TestModel exported = versions.base;
  exported["model.layers.0.mlp.weight"].bytes[7] ^= std::byte{0x80};
  WriteCheckpoint(exported, versions.directory / "agent", {.reversed = true});
  const auto before = FilesOf(versions.directory / "agent");
  EXPECT_THAT(OpenAndApply(versions.directory / "agent", versions.ThePatch()),
              Fails(Code::kMismatch, HasSubstr("base digest")));
  EXPECT_EQ(FilesOf(versions.directory / "agent"), before);
}

// A10: the file is well formed and sealed, its one block is hostile.
class HostilePatch : public CanonicalCheckpointTest {
 protected:
  // A block for the tensor "model.embed.weight" (6144 units; its cell is the third, behind the mask's and the position
  // ids') that changes `positions`.
  Patch With(const std::vector<uint32_t>& positions, uint32_t announced) {
    const SymbolTable table(SymbolTable::NormaliseSample(std::array<uint64_t, kSymbols>{}));
    Bytes payload;
    EncodeSparseFlat(6144, positions, std::vector<StepToken>(positions.size()), table, payload);
    MemorySink sink;
    PatchWriter writer(sink);
    Must(writer.Begin(0));
    Must(writer.AddBlock({.first_cell = 2, .cells = 1, .changed = announced}, payload));
    PatchHead head{.info = patch_.info(), .tables = {{DType::kBF16, table}}};
    head.info.changed = announced;
    head.info.target_layout = head.info.base_layout;
    Must(writer.Finish(std::move(head)));
    return Must(Patch::FromBytes(std::move(sink.bytes())));
  }
  void ExpectRefused(const Patch& patch) {
    const Path work = Work();
    EXPECT_THAT(OpenAndApply(work, patch), Fails(Code::kCorrupt, HasSubstr("model.embed.weight")));
    EXPECT_EQ(FilesOf(work), v0);
    EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
    EXPECT_THAT(OpenAndApply(work, patch_), Succeeds()) << "and a good patch still goes";
  }
};

TEST_F(HostilePatch, A10_IndexEqualToNumelIsRefusedBeforeTheFirstWrite) {
  ExpectRefused(With({6144}, 1));
  ExpectRefused(With({5, 100, 6144}, 3));
  ExpectRefused(With({5, 100, 65535}, 3));
}

TEST_F(HostilePatch, A10_AnotherNumberOfPositionsThanAnnouncedIsRefusedBeforeTheFirstWrite) {
  ExpectRefused(With({1, 2, 3}, 2));
  ExpectRefused(With({1, 2, 3}, 4));
}

TEST_F(HostilePatch, A10_ADuplicateIndexCanNotBeWritten) {
  // Gaps count the unchanged units between two positions, so rising is the only order; a second 5 is a gap of 2^32 - 1.
  ExpectRefused(With({5, 5}, 2));
  ExpectRefused(With({9, 5}, 2));
}

TEST_F(HostilePatch, AWrongValueUnderARightPositionIsRefused) { ExpectRefused(With({1, 2, 3}, 3)); }

TEST(FieldCase, A11c_ASecondApplierIsToldThatTheDirectoryIsTaken) {
  TwoVersions versions;
  const Path work = versions.Work();
  {
    CanonicalCheckpoint first = Must(OpenCanonical(work));
    EXPECT_THAT(OpenCanonical(work), Fails(Code::kConflict, HasSubstr("lock")));
    Must(first.Apply(versions.ThePatch(), Label(1), 1, Progress::None()));
    EXPECT_THAT(OpenCanonical(work), Fails(Code::kConflict));
  }
  EXPECT_EQ(Must(OpenAndApply(work, versions.ThePatch(), Label(1))).changed, 0u);
  EXPECT_EQ(FilesOf(work), versions.v1);
}

TEST(FieldCase, A11c_TwoAppliersAtOnceEndAtTheNewVersion) {
  TwoVersions versions;
  const Path work = versions.Work();
  const Patch patch = versions.ThePatch();
  std::array<uint64_t, 3> changed{};
  std::vector<std::thread> appliers;
  for (uint64_t& mine : changed) {
    appliers.emplace_back([&] {
      while (true) {
        const Result<ApplyReceipt> applied = OpenAndApply(work, patch, Label(1));
        if (applied) {
          mine = applied->changed;
          return;
        }
        if (applied.error().code != Code::kConflict) throw std::runtime_error(Outcome(applied));
        std::this_thread::yield();
      }
    });
  }
  for (std::thread& applier : appliers) applier.join();
  EXPECT_EQ(FilesOf(work), versions.v1);
  EXPECT_EQ(changed[0] + changed[1] + changed[2], patch.info().changed) << "one did it, the others found it done";
}

TEST_F(CanonicalCheckpointTest, ACorruptedOldValueAtATouchedPlaceIsFoundBeforeAnythingIsWritten) {
  const ModelSource source(base);
  const auto places = PositionsIn(patch_, source);
  ASSERT_EQ(places[0].first, "model.embed.weight");
  const uint64_t touched = places[0].second[3];
  // The touched unit itself, and its neighbour in the same 64-bit word.
  for (const uint64_t unit : {touched, touched ^ 1}) {
    const Path work = Work();
    Must(WriteState(DefaultStateDirectory([&] {
                      std::filesystem::create_directories(DefaultStateDirectory(work));
                      return work;
                    }()),
                    Must(OpenCanonical(work)).state()));
    const Checkpoint checkpoint = Must(Checkpoint::Open(work));
    const LayoutTensor& tensor =
        checkpoint.layout().tensors()[static_cast<size_t>(checkpoint.layout().Find("model.embed.weight"))];
    const std::string file = checkpoint.layout().files()[tensor.file].name;
    std::string bytes = ReadText(work / file);
    bytes[tensor.offset_in_file + 2 * unit] ^= 0x10;
    WriteText(work / file, bytes);
    const auto damaged = FilesOf(work);
    EXPECT_THAT(OpenAndApply(work, patch_),
                Fails(Code::kCorrupt, AnyOf(HasSubstr("checksum"), HasSubstr("model digest"))));
    EXPECT_EQ(FilesOf(work), damaged);
    EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
  }
}

TEST_F(CanonicalCheckpointTest, RefusesAStateThatIsNotTheFiles) {
  const Path work = Work(), state_directory = DefaultStateDirectory(work);
  Must(OpenAndApply(work, patch_, Label(1)));
  const std::string good = ReadText(state_directory / "state.json");
  CheckpointState state = *Must(ReadState(state_directory));
  state.tensors[0].a ^= 1;
  Must(WriteState(state_directory, state));
  EXPECT_THAT(OpenCanonical(work), Fails(Code::kCorrupt, HasSubstr("does not add up")));
  state.tensors.pop_back();
  Must(WriteState(state_directory, state));
  EXPECT_THAT(OpenCanonical(work), Fails(Code::kCorrupt));
  WriteText(state_directory / "state.json", good.substr(0, good.size() / 2));
  EXPECT_THAT(OpenCanonical(work), Fails(Code::kCorrupt, HasSubstr("state.json")));
  WriteText(state_directory / "state.json", good);
  EXPECT_THAT(OpenCanonical(work), Succeeds());
  WriteCheckpoint(target, work, {.shards = 3});
  WriteText(state_directory / "state.json", good);
  EXPECT_THAT(OpenCanonical(work), Fails(Code::kCorrupt, HasSubstr("the directory was changed")));
}

TEST_F(CanonicalCheckpointTest, ADamagedJournalIsRefusedWhateverByteItIs) {
  const Path work = Work(), journal = DefaultStateDirectory(work) / "journal";
  {
    const WithFailpoints with("apply.journal_committed:error");
    EXPECT_FALSE(OpenAndApply(work, patch_, Label(1)));
  }
  const std::string good = ReadText(journal);
  ASSERT_GT(good.size(), 1000u);
  for (size_t at = 0; at < good.size(); at += at < 200 || at + 400 > good.size() ? 1 : 61) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1 << at % 8);
    WriteText(journal, bad);
    ASSERT_THAT(OpenCanonical(work), Fails(Code::kCorrupt)) << "byte " << at;
  }
  for (size_t size = 0; size < good.size(); size += size < 200 ? 1 : 61) {
    WriteText(journal, good.substr(0, size));
    ASSERT_THAT(OpenCanonical(work), Fails(Code::kCorrupt)) << size << " bytes";
  }
  WriteText(journal, good + "x");
  EXPECT_THAT(OpenCanonical(work), Fails(Code::kCorrupt));
  WriteText(journal, good);
  EXPECT_TRUE(ExpectOldOrNewThenNew(work));
}

// The journal of a failed write is still there: another patch from the same base must not take its place, since that
// would leave half of the first one's changes behind.
TEST_F(CanonicalCheckpointTest, AFailedWriteIsFinishedBeforeAnythingElseIsApplied) {
  TestModel other = base;
  Nudge(other["model.layers.0.mlp.weight"], 0.1, random_);
  WriteCheckpoint(other, directory / "other", {.shards = 2});
  const Patch other_patch = Must(Patch::FromBytes(PatchBetween(directory / "v0", directory / "other")));
  const Path work = Work();
  {
    CanonicalCheckpoint canonical = Must(OpenCanonical(work));
    {
      const WithFailpoints with("apply.tensors_written:error");
      EXPECT_FALSE(canonical.Apply(patch_, Label(1), 1, Progress::None()));
    }
    EXPECT_FALSE(canonical.Apply(other_patch, Label(9), 1, Progress::None()));
  }
  EXPECT_TRUE(ExpectOldOrNewThenNew(work));
}

TEST_F(CanonicalCheckpointTest, RefusesAPatchThatChangesTheFilesLayout) {
  WriteCheckpoint(target, directory / "resharded", {.shards = 3});
  const Path work = Work();
  EXPECT_THAT(OpenAndApply(work, Must(Patch::FromBytes(PatchBetween(directory / "v0", directory / "resharded")))),
              Fails(Code::kInvalid, HasSubstr("layout")));
  EXPECT_EQ(FilesOf(work), v0);
}

TEST(FieldCase, B18_WithoutMappingsTheResultIsTheSame) {
  TwoVersions versions;
  const Path work = versions.Work();
  const WithFailpoints with("file.map:errno=12");
  Must(OpenAndApply(work, versions.ThePatch(), Label(1), 2));
  EXPECT_EQ(FilesOf(work), versions.v1);
}

TEST(FieldCase, A23_WeightAndScaleInTwoShardsNeverStayApart) {
  TwoVersions versions;
  const Checkpoint checkpoint = Must(Checkpoint::Open(versions.directory / "v0"));
  const auto file_of = [&](std::string_view name) {
    return checkpoint.layout().tensors()[static_cast<size_t>(checkpoint.layout().Find(name))].file;
  };
  ASSERT_NE(file_of("model.layers.0.experts.weight"), file_of("model.layers.0.experts.scale"));
  const Path work = versions.Work();
  {
    const WithFailpoints with("apply.tensors_half_written:error");
    EXPECT_FALSE(OpenAndApply(work, versions.ThePatch(), Label(1)));
  }
  Must(OpenCanonical(work));
  EXPECT_EQ(FilesOf(work), versions.v1);
}

// v2's tensors are v0's again, its side files are not: P2 (v1 -> v2) is not "applied already" on v0.
TEST_F(CanonicalCheckpointTest, TensorsThatReturnToOldValuesDoNotHideOtherSideFiles) {
  TestModel back = base;
  back.side_files["config.json"] = "third";
  WriteCheckpoint(back, directory / "v2", {.shards = 2});
  const Patch p2 = Must(Patch::FromBytes(PatchBetween(directory / "v1", directory / "v2")));
  const Path work = Work();
  const Result<ApplyReceipt> applied = OpenAndApply(work, p2, Label(2));
  if (applied) {
    EXPECT_EQ(FilesOf(work), FilesOf(directory / "v2"));
  } else {
    EXPECT_EQ(FilesOf(work), v0);
  }
}

// A patch between versions in two shards, whose index changed too, on a copy in one file.
TEST_F(CanonicalCheckpointTest, APatchNeverLeavesAnIndexThatIsNotItsFiles) {
  WriteCheckpoint(base, directory / "one-file");
  const auto before = FilesOf(directory / "one-file");
  const Result<ApplyReceipt> applied = OpenAndApply(directory / "one-file", patch_, Label(1));
  EXPECT_TRUE(applied || FilesOf(directory / "one-file") == before) << Outcome(applied);
  EXPECT_THAT(OpenCanonical(directory / "one-file"), Succeeds());
}

// A side file that becomes a folder, and a removal of what is not there: done, or refused before the journal is
// committed.
TEST_F(CanonicalCheckpointTest, SideFilesInEachOthersWayNeverWedgeACheckpoint) {
  TestModel folders = base;
  folders.side_files.erase("merges.txt");
  folders.side_files["merges.txt/a"] = "a";
  WriteCheckpoint(folders, directory / "folders", {.shards = 2});
  const Patch there = Must(Patch::FromBytes(PatchBetween(directory / "v0", directory / "folders")));
  const Patch back = Must(Patch::FromBytes(PatchBetween(directory / "folders", directory / "v0")));
  for (const Patch* patch : {&there, &back}) {
    const Path work = Work();
    const Result<ApplyReceipt> applied = OpenAndApply(work, *patch);
    EXPECT_EQ(FilesOf(work), applied && patch == &there ? FilesOf(directory / "folders") : v0) << Outcome(applied);
    EXPECT_THAT(OpenCanonical(work), Succeeds());
    EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
  }
}

TEST_F(CanonicalCheckpointTest, ADirectoryThatIsNotThereIsNotFound) {
  EXPECT_THAT(OpenCanonical(directory / "nowhere"), Fails(Code::kNotFound, HasSubstr("nowhere")));
}

}  // namespace
}  // namespace skerry
