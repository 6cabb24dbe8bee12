#include "skerry/apply/undo_log.h"

#include "skerry/apply/undo_entry.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CheckpointState StateOf(uint64_t version, std::string_view model = "") {
  return {.label = {"run", Version(version)},
          .layout = Sha256::Of("layout"),
          .model = Sha256::Of(fmt::format("{}{}", version, model)),
          .tensors = {{version, 2}}};
}
VersionMark Mark(uint64_t version) { return VersionMark::Of(StateOf(version)); }
VersionLabel Label(uint64_t version) { return {"run", Version(version)}; }

class UndoLogTest : public ::testing::Test {
 protected:
  // A step with one record of `units` units.
  void Step(uint64_t from, uint64_t to, uint64_t units = 1) {
    UndoWriter writer = Must(UndoWriter::Begin(directory_.path(), Mark(from), Mark(to)));
    Must(writer.Add(
        {.tensor = 0, .first_unit = 0, .units = units, .changes = {.unit = 1, .all = true, .values = Bytes(units)}}));
    Must(writer.Commit({{"config.json", ToBytes(AsBytes("{}"))}, {"gone", std::nullopt}}, StateOf(from)));
  }
  UndoLog Log() const { return Must(UndoLog::Read(directory_.path())); }
  std::vector<std::string> Names() const { return NamesIn(directory_ / "undo"); }
  static std::vector<uint64_t> Numbers(const std::vector<UndoStep>& steps) {
    std::vector<uint64_t> numbers;
    for (const UndoStep& step : steps) numbers.push_back(step.number);
    return numbers;
  }

  TempDir directory_;
};

TEST_F(UndoLogTest, IsEmptyWhereThereIsNone) {
  EXPECT_THAT(Log().steps(), IsEmpty());
  EXPECT_THAT(Log().WayBack(Mark(3), Label(2)), IsEmpty());
}

TEST_F(UndoLogTest, LeadsBackOverAnUnbrokenChainOnly) {
  Step(0, 1);
  Step(1, 2);
  Step(2, 5);
  Step(7, 8);
  EXPECT_THAT(Numbers(Log().WayBack(Mark(5), Label(0))), ElementsAre(3, 2, 1));
  EXPECT_THAT(Numbers(Log().WayBack(Mark(5), Label(2))), ElementsAre(3));
  EXPECT_THAT(Log().WayBack(Mark(5), Label(5)), IsEmpty());
  EXPECT_THAT(Log().WayBack(Mark(5), Label(4)), IsEmpty());
  EXPECT_THAT(Log().WayBack(Mark(8), Label(2)), IsEmpty());
  EXPECT_THAT(Log().Reachable(Mark(5)), ElementsAre(Mark(2), Mark(1), Mark(0)));
}

TEST_F(UndoLogTest, NeverStartsFromAnotherVersionOfTheSameName) {
  Step(0, 1);
  const VersionMark other = VersionMark::Of(StateOf(1, "other bytes"));
  EXPECT_THAT(Log().WayBack(other, Label(0)), IsEmpty());
  EXPECT_THAT(Log().Between(other, Label(0)), IsEmpty());
}

TEST_F(UndoLogTest, ANameThatTwoVersionsHadLeadsNowhere) {
  Step(0, 1);
  Must(Must(UndoWriter::Begin(directory_.path(), VersionMark::Of(StateOf(0, "other")), Mark(1)))
           .Commit({}, StateOf(0, "other")));
  EXPECT_THAT(Log().WayBack(Mark(1), Label(0)), IsEmpty());
}

TEST_F(UndoLogTest, AStepBackIsAWayForwardAndTheShortestWayIsTaken) {
  Step(0, 1);
  Step(1, 2);
  Step(2, 0);
  EXPECT_THAT(Numbers(Log().WayBack(Mark(0), Label(2))), ElementsAre(3));
  EXPECT_THAT(Numbers(Log().WayBack(Mark(0), Label(1))), ElementsAre(3, 2));
  EXPECT_THAT(Numbers(Log().Between(Mark(0), Label(1))), ElementsAre(1)) << "what differs is known from either side";
}

TEST_F(UndoLogTest, PruningKeepsTheLastStepsAndNothingThatLeadsNowhere) {
  Step(20, 21);
  for (uint64_t version = 0; version < 6; ++version) Step(version, version + 1);
  UndoLog log = Log();
  Must(log.Prune(Mark(6), {.versions = 3}));
  EXPECT_THAT(Numbers(log.steps()), ElementsAre(5, 6, 7));
  EXPECT_THAT(Names(), ElementsAre("000000005.undo", "000000006.undo", "000000007.undo"));
  Must(log.Prune(Mark(9), {.versions = 3}));
  EXPECT_THAT(log.steps(), IsEmpty());
}

TEST_F(UndoLogTest, PruningByBytesKeepsAtLeastTheLastStep) {
  for (uint64_t version = 0; version < 4; ++version) Step(version, version + 1, 10'000);
  UndoLog log = Log();
  const uint64_t one = log.steps().front().bytes;
  Must(log.Prune(Mark(4), {.versions = 9, .bytes = 2 * one + one / 2}));
  EXPECT_THAT(Numbers(log.steps()), ElementsAre(3, 4));
  Must(log.Prune(Mark(4), {.versions = 9, .bytes = 1}));
  EXPECT_THAT(Numbers(log.steps()), ElementsAre(4));
}

TEST_F(UndoLogTest, AStepThatWasMadeAgainReplacesTheFirst) {
  Step(0, 1);
  Step(1, 2);
  Step(0, 1);
  UndoLog log = Log();
  Must(log.Prune(Mark(1), {.versions = 9}));
  EXPECT_THAT(Numbers(log.steps()), ElementsAre(2, 3));
}

TEST_F(UndoLogTest, WhatIsUnfinishedOrDamagedIsNoStep) {
  Step(0, 1);
  Step(1, 2);
  {
    UndoWriter unfinished = Must(UndoWriter::Begin(directory_.path(), Mark(2), Mark(3)));
  }
  WriteText(directory_ / "undo/000000009.undo", "SKERRYU1 and nothing else");
  WriteText(directory_ / "undo/readme.txt", "hello");
  EXPECT_THAT(Numbers(Log().steps()), ElementsAre(1, 2));
  Step(2, 3);
  EXPECT_THAT(Numbers(Log().steps()), ElementsAre(1, 2, 10)) << "a number is not used again";
  EXPECT_FALSE(std::filesystem::exists(directory_ / "undo/000000003.unfinished"));
}

TEST_F(UndoLogTest, AnEntryGivesBackWhatWasWritten) {
  Step(4, 5, 70);
  const UndoStep step = Log().steps().at(0);
  EXPECT_EQ(step.from, Mark(4));
  EXPECT_EQ(step.to, Mark(5));
  EXPECT_EQ(step.bytes, std::filesystem::file_size(step.file));
  const UndoEntry entry = Must(ReadUndoEntry(step));
  ASSERT_EQ(entry.records.size(), 1u);
  EXPECT_EQ(entry.records[0].head.changed(), 70u);
  EXPECT_EQ(entry.from.tensors, StateOf(4).tensors);
  ASSERT_EQ(entry.side_files.size(), 2u);
  EXPECT_EQ(entry.side_files[0].content, ToBytes(AsBytes("{}")));
  EXPECT_EQ(entry.side_files[1].content, std::nullopt);
}

TEST_F(UndoLogTest, AnyDamagedByteOfAnEntryIsFound) {
  Step(4, 5, 70);
  const UndoStep step = Log().steps().at(0);
  const std::string good = ReadText(step.file);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    WriteText(step.file, damaged);
    EXPECT_THAT(ReadUndoEntry(step), Fails(Code::kCorrupt)) << "byte " << at;
    if (at % 7 == 0) {
      WriteText(step.file, good.substr(0, at));
      EXPECT_THAT(ReadUndoEntry(step), Fails(Code::kCorrupt)) << "cut at " << at;
    }
  }
}

}  // namespace
}  // namespace skerry
