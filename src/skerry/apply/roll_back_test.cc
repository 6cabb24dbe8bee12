#include "skerry/apply/roll_back.h"

#include "skerry/apply/undo_entry.h"
#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

VersionLabel Label(uint64_t version) { return {"run", Version(version)}; }

// Versions of a model whose side files come, change, go and come back; the patches between neighbours.
class Versions {
 public:
  explicit Versions(uint64_t last) {
    TestModel model = SmallModel(random_);
    model.tensors.push_back(RandomTensor("model.large", DType::kBF16, {1100, 1000}, random_));
    model.tensors.push_back(RandomTensor("model.packed", DType::kF4, {40, 16}, random_));
    for (uint64_t version = 0; version <= last; ++version) {
      if (version > 0) {
        model.Nudge(version % 3 == 0 ? 1 : 0.02, random_);
        model.side_files["config.json"] = fmt::format(R"({{"version":{}}})", version);
        if (version % 2 == 1) {
          model.side_files["deep/er/odd.txt"] = fmt::format("{}", version);
        } else {
          model.side_files.erase("deep/er/odd.txt");
        }
      }
      WriteCheckpoint(model, Folder(version), {.shards = 2});
      files.push_back(FilesOf(Folder(version)));
      if (version == 0) continue;
      patches.push_back(Must(Patch::FromBytes(PatchBetween(Folder(version - 1), Folder(version)))));
    }
  }

  Path Folder(uint64_t version) const { return directory / fmt::format("v{}", version); }
  // A copy of version 0 at another place each time.
  Path Work() {
    const Path work = directory / fmt::format("work-{}", ++works_);
    std::filesystem::copy(Folder(0), work, std::filesystem::copy_options::recursive);
    return work;
  }
  // Moves from one version to the next up to `to`.
  void Advance(CanonicalCheckpoint& canonical, uint64_t from, uint64_t to) {
    for (uint64_t version = from + 1; version <= to; ++version) {
      Must(canonical.Apply(patches[version - 1], Label(version), 2, Progress::None()));
    }
  }

  TempDir directory;
  std::vector<std::map<std::string, std::string>> files;
  std::vector<Patch> patches;  // [n]: from n to n + 1

 private:
  Random random_{7};
  int works_ = 0;
};

// With a label for version 0, as a checkpoint that was pulled has.
CanonicalCheckpoint Opened(const Path& work, const UndoPolicy& undo) {
  const Path state = DefaultStateDirectory(work);
  CanonicalCheckpoint canonical = Must(CanonicalCheckpoint::Open(work, state, 1, Progress::None(), {.undo = undo}));
  if (!canonical.state().label.version) Must(canonical.Relabel(Label(0)));
  return canonical;
}

void ExpectVersion(const CanonicalCheckpoint& canonical, const Path& work, const Versions& versions, uint64_t version) {
  EXPECT_EQ(FilesOf(work), versions.files[version]) << "version " << version;
  EXPECT_EQ(canonical.state().label, Label(version));
  EXPECT_EQ(canonical.state().tensors, Must(DigestTensors(canonical.checkpoint(), 1, Progress::None())));
}

TEST(RollBack, TenVersionsBackAndForwardAgainAreByteIdentical) {
  Versions versions(10);
  const Path work = versions.Work();
  CanonicalCheckpoint canonical = Opened(work, {.versions = 10});
  versions.Advance(canonical, 0, 10);
  ExpectVersion(canonical, work, versions, 10);
  for (const int threads : {1, 3}) {
    for (uint64_t version = 10; version-- > 0;) {
      const ApplyReceipt receipt = Must(canonical.RollBack(Label(version), threads, Progress::None()));
      EXPECT_GT(receipt.changed, 0u);
      ExpectVersion(canonical, work, versions, version);
    }
    for (uint64_t version = 1; version <= 10; ++version) {
      versions.Advance(canonical, version - 1, version);
      ExpectVersion(canonical, work, versions, version);
    }
  }
  // All at once, back by the log and forward by it too.
  Must(canonical.RollBack(Label(0), 2, Progress::None()));
  ExpectVersion(canonical, work, versions, 0);
  Must(canonical.RollBack(Label(10), 2, Progress::None()));
  ExpectVersion(canonical, work, versions, 10);
  Must(canonical.RollBack(Label(0), 1, Progress::None()));
  versions.Advance(canonical, 0, 10);
  ExpectVersion(canonical, work, versions, 10);
}

TEST(RollBack, ReachesAsManyVersionsAsAreKeptAndNamesTheOldest) {
  Versions versions(5);
  const Path work = versions.Work();
  CanonicalCheckpoint canonical = Opened(work, {.versions = 3});
  versions.Advance(canonical, 0, 5);
  EXPECT_EQ(Must(UndoLog::Read(DefaultStateDirectory(work))).steps().size(), 3u);
  EXPECT_THAT(Must(canonical.WaysBack()), ElementsAre(Label(4), Label(3), Label(2)));
  EXPECT_THAT(
      canonical.RollBack(Label(1), 1, Progress::None()),
      Fails(Code::kNotFound, AllOf(HasSubstr("run version 1"), HasSubstr("oldest that it reaches is run version 2"))));
  ExpectVersion(canonical, work, versions, 5);
  Must(canonical.RollBack(Label(2), 1, Progress::None()));
  ExpectVersion(canonical, work, versions, 2);
  EXPECT_THAT(Must(canonical.WaysBack()), ElementsAre(Label(5)))
      << "what was undone is gone, but for the way back to it";
}

TEST(RollBack, WithoutAnUndoLogNothingIsKeptAndAnOldOneIsDropped) {
  Versions versions(3);
  const Path work = versions.Work();
  {
    CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
    versions.Advance(canonical, 0, 2);
  }
  CanonicalCheckpoint canonical = Opened(work, {});
  EXPECT_THAT(Must(canonical.WaysBack()), ElementsAre(Label(1), Label(0)));
  versions.Advance(canonical, 2, 3);
  EXPECT_THAT(Must(canonical.WaysBack()), IsEmpty());
  EXPECT_THAT(NamesIn(DefaultStateDirectory(work) / "undo"), IsEmpty());
  EXPECT_THAT(canonical.RollBack(Label(2), 1, Progress::None()),
              Fails(Code::kNotFound, HasSubstr("reaches no other version")));
}

TEST(RollBack, AnotherNameForTheSameBytesDoesNotEndTheWayBack) {
  Versions versions(2);
  const Path work = versions.Work();
  CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
  versions.Advance(canonical, 0, 1);
  const VersionLabel fork{"fork", Version(0)};
  Must(canonical.Relabel(fork));
  Must(canonical.Apply(versions.patches[1], {"fork", Version(1)}, 1, Progress::None()));
  Must(canonical.RollBack(fork, 1, Progress::None()));
  EXPECT_EQ(FilesOf(work), versions.files[1]);
  Must(canonical.RollBack(Label(0), 1, Progress::None()));
  ExpectVersion(canonical, work, versions, 0);
}

TEST(RollBack, ADamagedByteOfTheCheckpointIsFoundAndNothingIsWritten) {
  Versions versions(3);
  const Path work = versions.Work();
  CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
  versions.Advance(canonical, 0, 3);  // version 3 changes every unit
  const Layout& layout = canonical.checkpoint().layout();
  const LayoutTensor& tensor = layout.tensors()[static_cast<size_t>(layout.Find("model.large"))];
  const Path shard = work / layout.files()[tensor.file].name;
  {
    const File file = Must(File::OpenForWriting(shard));
    Bytes byte(1);
    Must(file.ReadAt(byte, tensor.offset_in_file + 4321));
    byte[0] ^= std::byte{1};
    Must(file.WriteAt(byte, tensor.offset_in_file + 4321));
  }
  const auto before = FilesOf(work);
  EXPECT_THAT(canonical.RollBack(Label(1), 2, Progress::None()),
              Fails(Code::kCorrupt, AllOf(HasSubstr("model.large"), HasSubstr(shard.filename().string()))));
  EXPECT_EQ(FilesOf(work), before);
  EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
  EXPECT_EQ(Must(canonical.WaysBack()).size(), 3u) << "the step that was given up is gone, the others stay";
}

TEST(RollBack, ADamagedLogIsFoundAndNothingIsWritten) {
  Versions versions(3);
  const Path work = versions.Work();
  CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
  versions.Advance(canonical, 0, 3);
  const Path file = DefaultStateDirectory(work) / "undo" / NamesIn(DefaultStateDirectory(work) / "undo")[1];
  std::string text = ReadText(file);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
  WriteText(file, text);
  EXPECT_THAT(canonical.RollBack(Label(0), 1, Progress::None()), Fails(Code::kCorrupt, HasSubstr(file.string())));
  ExpectVersion(canonical, work, versions, 3);
  Must(canonical.RollBack(Label(2), 1, Progress::None()));
  ExpectVersion(canonical, work, versions, 2);
}

TEST(RollBack, AFullDiskIsFoundBeforeAnythingIsWritten) {
  Versions versions(2);
  const Path work = versions.Work();
  CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
  versions.Advance(canonical, 0, 2);
  for (const char* failpoint : {"file.write:errno=28@1", "file.write:errno=28@2", "file.rename:errno=28@1"}) {
    const WithFailpoints with(failpoint);
    EXPECT_THAT(canonical.RollBack(Label(0), 1, Progress::None()), Fails(Code::kNoSpace)) << failpoint;
    ExpectVersion(canonical, work, versions, 2);
  }
  Must(canonical.RollBack(Label(0), 1, Progress::None()));
  ExpectVersion(canonical, work, versions, 0);
}

TEST(RollBack, WorksWhereTheHostMapsNoFiles) {
  Versions versions(3);
  const Path work = versions.Work();
  const WithFailpoints with("file.map:errno=12");
  CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
  versions.Advance(canonical, 0, 3);
  Must(canonical.RollBack(Label(0), 2, Progress::None()));
  ExpectVersion(canonical, work, versions, 0);
  Must(canonical.RollBack(Label(3), 2, Progress::None()));
  ExpectVersion(canonical, work, versions, 3);
}

TEST(RollBack, OfADirectoryTakesTheLockOfPulls) {
  Versions versions(1);
  const Path work = versions.Work();
  {
    CanonicalCheckpoint canonical = Opened(work, {.versions = 5});
    versions.Advance(canonical, 0, 1);
    EXPECT_THAT(RollBackCheckpoint(work, Label(0), {}, 1, Progress::None()), Fails(Code::kConflict));
  }
  Must(RollBackCheckpoint(work.string() + "/", Label(0), {}, 1, Progress::None()));
  EXPECT_EQ(FilesOf(work), versions.files[0]);
  EXPECT_TRUE(std::filesystem::exists(versions.directory / ".work-1.lock"));
  EXPECT_THAT(RollBackCheckpoint(versions.Folder(1), Label(0), {}, 1, Progress::None()), Fails(Code::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(DefaultStateDirectory(versions.Folder(1))));
}

// Every failpoint on the way of an apply with an undo log, or of a rollback over two versions: what is left is exactly
// one of both versions, and after that the same move goes through.
class EveryFailpoint : public ::testing::TestWithParam<bool> {};

TEST_P(EveryFailpoint, LeavesTheOldOrTheNewVersionAndTheMoveCanBeMadeAgain) {
  const bool rolls_back = GetParam();
  Versions versions(3);
  const uint64_t old_version = 2, new_version = rolls_back ? 0 : 3;
  const auto move = [&](CanonicalCheckpoint& canonical) {
    return rolls_back ? canonical.RollBack(Label(0), 1, Progress::None())
                      : canonical.Apply(versions.patches[2], Label(3), 1, Progress::None());
  };
  int passed = 0;
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("apply.") && !name.starts_with("undo.") && !name.starts_with("rollback.")) continue;
    SCOPED_TRACE(name);
    const Path work = versions.Work();
    {
      CanonicalCheckpoint canonical = Opened(work, {.versions = 3});
      versions.Advance(canonical, 0, 2);
      const WithFailpoints with(fmt::format("{}:error", name));
      const Result<ApplyReceipt> moved = move(canonical);
      if (moved) continue;  // not on this way
      ++passed;
      EXPECT_THAT(moved, Fails(Code::kIo, HasSubstr(std::string(name))));
    }
    {
      CanonicalCheckpoint canonical = Opened(work, {.versions = 3});
      const bool is_new = canonical.state().label == Label(new_version);
      ExpectVersion(canonical, work, versions, is_new ? new_version : old_version);
      EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
      EXPECT_THAT(canonical.WaysBack(), Succeeds());
      EXPECT_THAT(move(canonical), Succeeds());
      ExpectVersion(canonical, work, versions, new_version);
      // And back where it came from.
      Must(canonical.RollBack(Label(old_version), 1, Progress::None()));
      ExpectVersion(canonical, work, versions, old_version);
    }
    for (const std::string& left : NamesIn(DefaultStateDirectory(work) / "undo")) EXPECT_THAT(left, HasSubstr(".undo"));
    std::filesystem::remove_all(work);
  }
  EXPECT_EQ(passed, rolls_back ? 10 : 11);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryFailpoint, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ARollback" : "AnApply"; });

}  // namespace
}  // namespace skerry
