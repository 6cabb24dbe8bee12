#include "skerry/apply/journal.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

JournalRecord Sparse(uint32_t tensor, int unit, std::vector<uint32_t> positions, Random& random) {
  JournalRecord record{.tensor = tensor, .first_unit = 65536, .units = 5000, .changes = {.unit = unit}};
  record.changes.values = RandomBytes(positions.size() * static_cast<size_t>(unit), random);
  record.changes.positions = std::move(positions);
  return record;
}

JournalRecord Dense(uint32_t tensor, int unit, uint64_t units, Random& random) {
  return {.tensor = tensor,
          .first_unit = 0,
          .units = units,
          .changes = {.unit = unit, .all = true, .values = RandomBytes(units * static_cast<size_t>(unit), random)}};
}

std::vector<JournalRecord> SomeRecords() {
  Random random(1);
  return {Sparse(0, 2, {0, 1, 4999}, random), Sparse(70'000, 8, {17}, random), Dense(2, 1, 300'000, random),
          Dense(3, 4, 400'000, random), Sparse(4, 1, {}, random)};
}

const CheckpointState kNewState{
    .label = {"run", Version(3)}, .layout = Sha256::Of("l"), .model = Sha256::Of("m"), .tensors = {{1, 2}}};
const std::vector<SideFileChange> kSideFiles = {
    {"config.json", ToBytes(AsBytes("{}"))}, {"empty", Bytes()}, {"gone", std::nullopt}};

void WriteJournal(const Path& directory) {
  JournalWriter writer = Must(JournalWriter::Begin(directory));
  for (const JournalRecord& record : SomeRecords()) Must(writer.Add(record));
  EXPECT_FALSE(JournalExists(directory));
  Must(writer.Commit(kSideFiles, kNewState));
  EXPECT_TRUE(JournalExists(directory));
  EXPECT_EQ(writer.bytes(), std::filesystem::file_size(directory / "journal"));
}

TEST(Journal, GivesBackWhatWasWritten) {
  const TempDir directory;
  WriteJournal(directory.path());
  const std::vector<JournalRecord> expected = SomeRecords();
  size_t next = 0;
  const JournalEnd end = Must(ReadJournal(directory.path(), [&](const JournalRecord& record) -> Status {
    const JournalRecord& want = expected.at(next++);
    EXPECT_EQ(record.tensor, want.tensor);
    EXPECT_EQ(record.first_unit, want.first_unit);
    EXPECT_EQ(record.units, want.units);
    EXPECT_EQ(record.changes.unit, want.changes.unit);
    EXPECT_EQ(record.changes.all, want.changes.all);
    EXPECT_EQ(record.changes.positions, want.changes.positions);
    EXPECT_TRUE(record.changes.values == want.changes.values);
    return {};
  }));
  EXPECT_EQ(next, expected.size());
  EXPECT_EQ(end.new_state.model, kNewState.model);
  EXPECT_EQ(end.new_state.label, kNewState.label);
  ASSERT_EQ(end.side_files.size(), 3u);
  EXPECT_EQ(end.side_files[0].content, kSideFiles[0].content);
  EXPECT_EQ(end.side_files[1].content, Bytes());
  EXPECT_EQ(end.side_files[2].content, std::nullopt);
  Must(RemoveJournal(directory.path()));
  EXPECT_FALSE(JournalExists(directory.path()));
}

TEST(Journal, ItsEndCanBeReadWithoutTheRecords) {
  const TempDir directory;
  WriteJournal(directory.path());
  const JournalEnd end = Must(ReadJournal(directory.path(), {}));
  EXPECT_EQ(end.new_state.model, kNewState.model);
  EXPECT_EQ(end.side_files.size(), 3u);
}

TEST(Journal, KeepsSmallRecordsInMemoryAndLargeOnesOnDiskAlone) {
  Random random(2);
  const TempDir directory;
  JournalWriter writer = Must(JournalWriter::Begin(directory.path()));
  Must(writer.Add(Sparse(0, 2, {0, 1, 4999}, random)));
  ASSERT_NE(writer.kept(), nullptr);
  EXPECT_EQ(writer.kept()->size(), 1u);
  for (uint64_t bytes = 0; bytes <= kKeptJournalBytes; bytes += 8 << 20) Must(writer.Add(Dense(1, 8, 1 << 20, random)));
  EXPECT_EQ(writer.kept(), nullptr);
  writer.Abandon();
}

TEST(Journal, StopsAtTheFirstWriteThatFails) {
  const TempDir directory;
  WriteJournal(directory.path());
  int calls = 0;
  EXPECT_THAT(ReadJournal(directory.path(),
                          [&](const JournalRecord&) -> Status {
                            return ++calls == 2 ? Status(Fail(Code::kNoSpace, "full")) : Status();
                          }),
              Fails(Code::kNoSpace));
  EXPECT_EQ(calls, 2);
}

TEST(Journal, AnUnfinishedOneDoesNotExistAndTheNextOneTakesItsPlace) {
  const TempDir directory;
  {
    JournalWriter writer = Must(JournalWriter::Begin(directory.path()));
    for (const JournalRecord& record : SomeRecords()) Must(writer.Add(record));
  }
  EXPECT_FALSE(JournalExists(directory.path()));
  WriteJournal(directory.path());
  EXPECT_THAT(ReadJournal(directory.path(), [](const JournalRecord&) -> Status { return {}; }), Succeeds());
  JournalWriter writer = Must(JournalWriter::Begin(directory.path()));
  writer.Abandon();
  EXPECT_FALSE(std::filesystem::exists(directory / "journal.unfinished"));
}

TEST(Journal, AFullDiskNeverLeavesACommittedJournal) {
  for (const char* failpoint :
       {"file.write:errno=28@1", "file.write:errno=28@2", "file.sync:errno=28@1", "file.rename:errno=28"}) {
    const TempDir directory;
    JournalWriter writer = Must(JournalWriter::Begin(directory.path()));
    const WithFailpoints with(failpoint);
    const Status written = [&]() -> Status {
      for (const JournalRecord& record : SomeRecords()) SKERRY_TRY(writer.Add(record));
      return writer.Commit(kSideFiles, kNewState);
    }();
    EXPECT_THAT(written, Fails(Code::kNoSpace)) << failpoint;
    EXPECT_FALSE(JournalExists(directory.path())) << failpoint;
  }
}

TEST(Journal, TheEstimateOfItsSizeIsFromAbove) {
  const TempDir directory;
  JournalWriter writer = Must(JournalWriter::Begin(directory.path()));
  uint64_t changed = 0;
  for (const JournalRecord& record : SomeRecords()) {
    Must(writer.Add(record));
    changed += record.changes.count();
  }
  Must(writer.Commit({}, kNewState));
  EXPECT_LE(writer.bytes(), JournalBytes(changed, 8, SomeRecords().size(), 1));
}

}  // namespace
}  // namespace skerry
