#include "skerry/base/file.h"

#include <cerrno>

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(File, ReadsAndWritesAtOffsets) {
  const TempDir directory;
  File file = Must(File::Create(directory / "f"));
  Must(file.Append(AsBytes("hello ")));
  Must(file.Append(AsBytes("world")));
  Must(file.WriteAt(AsBytes("W"), 6));
  EXPECT_EQ(Must(file.Size()), 11u);
  Bytes part(5);
  Must(file.ReadAt(part, 6));
  EXPECT_EQ(AsText(part), "World");
  Must(file.Sync());
  Must(file.Truncate(5));
  EXPECT_EQ(ReadText(directory / "f"), "hello");
  EXPECT_EQ(Must(Must(File::OpenForWriting(directory / "f")).Size()), 5u) << "opening keeps the content";
  EXPECT_EQ(Must(Must(File::Create(directory / "f")).Size()), 0u) << "creating does not";
}

TEST(File, AReadBeyondTheEndIsCorruptAndSaysWhere) {
  const TempDir directory;
  WriteText(directory / "f", "12345");
  const File file = Must(File::OpenForReading(directory / "f"));
  Bytes part(4);
  EXPECT_THAT(file.ReadAt(part, 2), Fails(Code::kCorrupt, AllOf(HasSubstr("byte 5"), HasSubstr("6"))));
  EXPECT_THAT(file.ReadAt(part, 100), Fails(Code::kCorrupt));
}

TEST(File, ErrorsHaveTheCodeOfTheirErrno) {
  const TempDir directory;
  EXPECT_THAT(File::OpenForReading(directory / "none"), Fails(Code::kNotFound, HasSubstr("none")));
  EXPECT_THAT(File::Create(directory / "none" / "f"), Fails(Code::kNotFound));
  EXPECT_THAT(File::OpenForReading(directory.path()), Fails(Code::kInvalid, HasSubstr("directory")));
  WriteText(directory / "f", "x");
  EXPECT_THAT(File::OpenForReading(directory / "f" / "g"), Fails(Code::kNotFound));
  for (const auto& [number, code] : {std::pair{ENOSPC, Code::kNoSpace},
                                     {EDQUOT, Code::kNoSpace},
                                     {EIO, Code::kIo},
                                     {EACCES, Code::kIo},
                                     {EEXIST, Code::kConflict},
                                     {ENOSYS, Code::kUnsupported},
                                     {ESTALE, Code::kUnavailable},
                                     {ETIMEDOUT, Code::kUnavailable},
                                     {ENOENT, Code::kNotFound}}) {
    const Status failed = ErrnoFailure(number, "open", "/some/path");
    EXPECT_THAT(failed, Fails(code, AllOf(HasSubstr("cannot open /some/path"), HasSubstr(std::strerror(number)))));
  }
}

TEST(File, MovesLeaveOneOwner) {
  const TempDir directory;
  File a = Must(File::Create(directory / "a"));
  Must(a.Append(AsBytes("12")));
  File b = std::move(a);
  EXPECT_FALSE(a.is_open());
  Must(b.Append(AsBytes("34")));
  EXPECT_EQ(ReadText(directory / "a"), "1234");
}

TEST(ReadFile, RefusesMoreThanItsLimitBeforeItReads) {
  const TempDir directory;
  WriteText(directory / "f", "12345");
  EXPECT_EQ(AsText(Must(ReadFile(directory / "f", 5))), "12345");
  EXPECT_THAT(ReadFile(directory / "f", 4), Fails(Code::kCorrupt, AllOf(HasSubstr("5 bytes"), HasSubstr("4"))));
  std::filesystem::resize_file(directory / "f", uint64_t{1} << 40);  // sparse
  EXPECT_THAT(ReadFile(directory / "f", 1 << 20), Fails(Code::kCorrupt));
}

TEST(WriteFileAtomically, ReplacesTheContent) {
  const TempDir directory;
  Must(WriteFileAtomically(directory / "f", AsBytes("old")));
  Must(WriteFileAtomically(directory / "f", AsBytes("new")));
  EXPECT_EQ(ReadText(directory / "f"), "new");
  EXPECT_THAT(NamesIn(directory.path()), ElementsAre("f"));
}

TEST(WriteFileAtomically, AFailureLeavesTheOldContentAndNoTemporaryFile) {
  const TempDir directory;
  Must(WriteFileAtomically(directory / "f", AsBytes("old")));
  for (const auto& [failpoint, code] : {std::pair{"file.open:errno=24", Code::kIo},
                                        {"file.write:errno=28", Code::kNoSpace},
                                        {"file.sync:errno=5@1", Code::kIo},
                                        {"file.rename:errno=13", Code::kIo}}) {
    {
      const WithFailpoints with(failpoint);
      EXPECT_THAT(WriteFileAtomically(directory / "f", AsBytes("new")),
                  Fails(code, HasSubstr(directory.path().string())))
          << failpoint;
    }
    EXPECT_EQ(ReadText(directory / "f"), "old") << failpoint;
    EXPECT_THAT(NamesIn(directory.path()), ElementsAre("f")) << failpoint;
  }
}

TEST(FileLock, IsHeldByOneAndFreedWithItsObject) {
  const TempDir directory;
  {
    const FileLock lock = Must(FileLock::TryAcquire(directory / "lock"));
    EXPECT_THAT(FileLock::TryAcquire(directory / "lock"), Fails(Code::kConflict, HasSubstr("locked")));
  }
  EXPECT_THAT(FileLock::TryAcquire(directory / "lock"), Succeeds());
  EXPECT_THAT(FileLock::Acquire(directory / "lock"), Succeeds());
}

TEST(FileLock, OtherErrorsAreNoConflict) {
  const TempDir directory;
  const WithFailpoints with("file.lock:errno=37");
  EXPECT_THAT(FileLock::TryAcquire(directory / "lock"), Fails(Code::kIo));
}

TEST(Paths, ExchangeSwapsDirectories) {
  const TempDir directory;
  WriteText(directory / "a" / "x", "1");
  WriteText(directory / "b" / "y", "2");
  Must(ExchangePaths(directory / "a", directory / "b"));
  EXPECT_EQ(ReadText(directory / "a" / "y"), "2");
  EXPECT_EQ(ReadText(directory / "b" / "x"), "1");
  EXPECT_THAT(ExchangePaths(directory / "a", directory / "none"), Fails(Code::kNotFound));
}

TEST(Paths, TreesAreMadeAndRemovedAndRemovingNothingIsFine) {
  const TempDir directory;
  Must(MakeDirectories(directory / "a" / "b" / "c"));
  Must(MakeDirectories(directory / "a" / "b"));
  Must(RemoveTree(directory / "a"));
  EXPECT_FALSE(std::filesystem::exists(directory / "a"));
  EXPECT_THAT(RemoveTree(directory / "a"), Succeeds());
  WriteText(directory / "f", "x");
  EXPECT_FALSE(MakeDirectories(directory / "f" / "g"));
}

TEST(CopyFile, CopiesEverySize) {
  Random random(1);
  const TempDir directory;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{5'000'001}}) {
    WriteText(directory / "from", AsText(RandomBytes(size, random)));
    WriteText(directory / "to", "something longer that was there before");
    Must(CopyFile(directory / "from", directory / "to"));
    EXPECT_TRUE(ReadText(directory / "from") == ReadText(directory / "to")) << size;
  }
  EXPECT_THAT(CopyFile(directory / "none", directory / "to"), Fails(Code::kNotFound));
  const WithFailpoints with("file.write:errno=28");
  EXPECT_THAT(CopyFile(directory / "from", directory / "to"), Fails(Code::kNoSpace));
}

TEST(RequireSpace, NamesWhatIsNeededAndWhatIsFree) {
  const TempDir directory;
  EXPECT_THAT(RequireSpace(directory.path(), 1, "a byte"), Succeeds());
  EXPECT_THAT(RequireSpace(directory.path(), ~uint64_t{0}, "the journal"),
              Fails(Code::kNoSpace, AllOf(HasSubstr("the journal"), HasSubstr("18446744073709551615"))));
  EXPECT_THAT(RequireSpace(directory / "none", 1, "x"), Fails(Code::kNotFound));
}

}  // namespace
}  // namespace skerry
