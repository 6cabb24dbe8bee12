#include "skerry/board/file_publication.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "skerry/base/failpoint.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/file_store.h"

namespace skerry {
namespace {

class FileSystemProbe : public testing::Test {
 protected:
  ~FileSystemProbe() override { SetFailpoints(""); }
  // What the probe says when the system call answers with this error number.
  Result<NoReplace> ProbeWith(std::string_view call, int error_number) {
    SetFailpoints(fmt::format("{}:errno={}", call, error_number));
    Result<NoReplace> result = ProbeFileSystem(scratch_.path());
    SetFailpoints("");
    return result;
  }
  ScratchDirectory scratch_;
};

TEST_F(FileSystemProbe, FindsLinksAndLeavesNothingBehind) {
  EXPECT_EQ(ProbeFileSystem(scratch_.path()).value(), NoReplace::kLink);
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(FileSystemProbe, SaysWhichCallDoesNotWorkAndWhatToUseInstead) {
  for (const int number : {ENOSYS, EOPNOTSUPP, EPERM}) {
    EXPECT_EQ(CodeOf(ProbeWith("file.rename", number)), "unsupported") << number;
    EXPECT_NE(MessageOf(ProbeWith("file.rename", number)).find("rename does not work"), std::string::npos);
    EXPECT_EQ(CodeOf(ProbeWith("file.lock", number)), "unsupported") << number;
    EXPECT_NE(MessageOf(ProbeWith("file.lock", number)).find("flock does not work"), std::string::npos);
    EXPECT_NE(MessageOf(ProbeWith("file.lock", number)).find("S3 board"), std::string::npos);
  }
  EXPECT_EQ(CodeOf(ProbeWith("file.lock", ENOLCK)), "unsupported") << "NFS without a lock daemon";
}

TEST_F(FileSystemProbe, FallsBackToRenameWhereThereAreNoLinks) {
  EXPECT_EQ(ProbeWith("file.link", EPERM).value(), NoReplace::kRename);
  EXPECT_EQ(ProbeWith("file.link", EOPNOTSUPP).value(), NoReplace::kRename);
  SetFailpoints("file.link:errno=1,file.rename:errno=22@2");  // the first rename is the plain one
  const Result<NoReplace> neither = ProbeFileSystem(scratch_.path());
  EXPECT_EQ(CodeOf(neither), "unsupported");
  EXPECT_NE(MessageOf(neither).find("neither link nor renameat2"), std::string::npos) << MessageOf(neither);
}

TEST_F(FileSystemProbe, DoesNotMistakeAFullOrBrokenDiskForAnUnfitOne) {
  for (const std::string_view call : {"file.rename", "file.link", "file.lock", "file.write", "file.open"}) {
    EXPECT_EQ(CodeOf(ProbeWith(call, ENOSPC)), "no_space") << call;
    EXPECT_EQ(CodeOf(ProbeWith(call, EIO)), "io") << call;
  }
}

TEST_F(FileSystemProbe, FailsTheOpeningOfAnUnfitDirectoryOnly) {
  SetFailpoints("file.rename:errno=38");
  EXPECT_EQ(CodeOf(FileStore::Open(scratch_.path(), true)), "unsupported");
  SetFailpoints("");
  ASSERT_TRUE(WriteFileAtomically(scratch_.path() / "object", AsBytes("bytes")));

  SetFailpoints("file.rename:errno=28");  // full: what is there can still be read
  const Result<std::shared_ptr<FileStore>> store = FileStore::Open(scratch_.path(), false);
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(CodeOf((*store)->Get("object", 10)), "ok");
  EXPECT_EQ(CodeOf((*store)->PutIfAbsent("new", MemorySource("x"))), "no_space");
  EXPECT_EQ(CodeOf((*store)->CompareAndSwap("head", std::nullopt, AsBytes("x"))), "no_space");
  SetFailpoints("");
  EXPECT_EQ(CodeOf((*store)->PutIfAbsent("new", MemorySource("x"))), "ok");
}

TEST(PublishFile, NeverReplaces) {
  const ScratchDirectory scratch;
  const Path target = scratch.path() / "target";
  ASSERT_TRUE(WriteFileAtomically(target, AsBytes("old")));
  for (const NoReplace how : {NoReplace::kLink, NoReplace::kRename}) {
    const Path temporary = TemporaryPath(scratch.path());
    ASSERT_TRUE(WriteFileAtomically(temporary, AsBytes("new")));
    EXPECT_EQ(CodeOf(PublishFile(temporary, target, how)), "conflict");
    EXPECT_EQ(AsText(ReadFile(target, 10).value()), "old");
    const Path free = scratch.path() / (how == NoReplace::kLink ? "by-link" : "by-rename");
    EXPECT_EQ(CodeOf(PublishFile(temporary, free, how)), "ok");
    EXPECT_FALSE(std::filesystem::exists(temporary));
  }
}

}  // namespace
}  // namespace skerry
