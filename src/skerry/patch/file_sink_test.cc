#include "skerry/patch/file_sink.h"

#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

TEST(FileSink, NothingStandsUnderTheNameBeforeCommitAndEverythingAfter) {
  const TempDir directory;
  FileSink sink = Must(FileSink::Create(directory / "p"));
  std::string text;
  for (int i = 0; i < 400; ++i) {
    const std::string part(10'000, static_cast<char>('a' + i % 26));
    Must(sink.Append(AsBytes(part)));
    text += part;
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "p"));
  Must(sink.Commit());
  EXPECT_TRUE(ReadText(directory / "p") == text);
  EXPECT_EQ(sink.size(), text.size());
  EXPECT_EQ(sink.sha256(), Sha256::Of(text));
  EXPECT_THAT(NamesIn(directory.path()), ::testing::ElementsAre("p"));
}

TEST(FileSink, LeavesNothingBehindWithoutCommit) {
  const TempDir directory;
  {
    FileSink sink = Must(FileSink::Create(directory / "p"));
    Must(sink.Append(AsBytes("half")));
    const FileSink moved = std::move(sink);
  }
  EXPECT_THAT(NamesIn(directory.path()), ::testing::IsEmpty());
}

TEST(FileSink, AFailedCommitLeavesTheOldFileAndNoTemporaryOne) {
  const TempDir directory;
  WriteText(directory / "p", "old");
  for (const auto& [failpoint, code] : {std::pair{"file.write:errno=28", Code::kNoSpace},
                                        {"file.sync:errno=5", Code::kIo},
                                        {"file.rename:errno=13", Code::kIo}}) {
    {
      FileSink sink = Must(FileSink::Create(directory / "p"));
      Must(sink.Append(AsBytes("new")));
      const WithFailpoints with(failpoint);
      EXPECT_THAT(sink.Commit(), Fails(code)) << failpoint;
    }
    EXPECT_EQ(ReadText(directory / "p"), "old") << failpoint;
    EXPECT_THAT(NamesIn(directory.path()), ::testing::ElementsAre("p")) << failpoint;
  }
}

}  // namespace
}  // namespace skerry
