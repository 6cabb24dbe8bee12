#include "skerry/apply/content_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/testing/two_versions.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kAtOnce{0};
constexpr milliseconds kLong{60'000};

TEST(ContentLock, ManyReadAndNobodyWritesMeanwhile) {
  const TempDir directory;
  const Path here = directory / "here";
  ContentLock first = Must(ContentLock::Shared(here, kAtOnce));
  ContentLock second = Must(ContentLock::Shared(here, kAtOnce));
  EXPECT_THAT(ContentLock::Exclusive(here, kAtOnce), Fails(Code::kUnavailable, HasSubstr("engines still read")));
  first = ContentLock();
  EXPECT_THAT(ContentLock::ForWriting(here, kAtOnce), Fails(Code::kUnavailable));
  second = ContentLock();
  const ContentLock writer = Must(ContentLock::ForWriting(here, kAtOnce));
  EXPECT_TRUE(writer.held());
  EXPECT_THAT(ContentLock::Shared(here, kAtOnce), Fails(Code::kUnavailable, HasSubstr("a writer still changes")));
}

TEST(ContentLock, AWriterLeavesNoFileWhereNobodyEverRead) {
  const TempDir directory;
  EXPECT_FALSE(Must(ContentLock::ForWriting(directory / "here", kAtOnce)).held());
  EXPECT_TRUE(NamesIn(directory.path()).empty());
}

TEST(ContentLock, OneDirectoryHasOneLockHoweverItIsSpelt) {
  const TempDir directory;
  const ContentLock reader = Must(ContentLock::Shared(directory / "here", kAtOnce));
  EXPECT_THAT(ContentLock::Exclusive(directory / "x/../here/", kAtOnce), Fails(Code::kUnavailable));
  EXPECT_THAT(NamesIn(directory.path()), ::testing::ElementsAre(".here.content"));
}

TEST(ContentLock, AHolderThatDiesHoldsNothing) {
  const TempDir directory;
  const Path here = directory / "here";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = ContentLock::Shared(here, kAtOnce);
    (void)!::write(ready[1], lock ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_THAT(ContentLock::Exclusive(here, kAtOnce), Fails(Code::kUnavailable));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_THAT(ContentLock::Exclusive(here, kAtOnce), Succeeds());
  ::close(ready[0]);
  ::close(ready[1]);
}

class ContentLockOfACheckpoint : public ::testing::Test, protected TwoVersions {
 protected:
  Result<CanonicalCheckpoint> Open(const Path& work, milliseconds patience) {
    return CanonicalCheckpoint::Open(work, DefaultStateDirectory(work), 1, Progress::None(),
                                     {.content_patience = patience});
  }
  const VersionLabel one_{"run", Version(1)};
};

TEST_F(ContentLockOfACheckpoint, AnApplyThatReadersHoldUpChangesNothing) {
  const Path work = Work();
  CanonicalCheckpoint canonical = Must(Open(work, kAtOnce));
  ContentLock reader = Must(ContentLock::Shared(work, kAtOnce));
  EXPECT_THAT(canonical.Apply(ThePatch(), one_, 1, Progress::None()), Fails(Code::kUnavailable));
  EXPECT_FALSE(JournalExists(DefaultStateDirectory(work)));
  EXPECT_EQ(FilesOf(work), v0);
  reader = ContentLock();
  Must(canonical.Apply(ThePatch(), one_, 1, Progress::None()));
  EXPECT_EQ(FilesOf(work), v1);
  EXPECT_THAT(ContentLock::Exclusive(work, kAtOnce), Succeeds()) << "the apply has let go";
}

TEST_F(ContentLockOfACheckpoint, AnApplyWaitsForReaders) {
  const Path work = Work();
  CanonicalCheckpoint canonical = Must(Open(work, kLong));
  std::optional<ContentLock> reader = Must(ContentLock::Shared(work, kAtOnce));
  std::thread applies([&] { Must(canonical.Apply(ThePatch(), one_, 1, Progress::None())); });
  EXPECT_EQ(FilesOf(work), v0);
  reader.reset();
  applies.join();
  EXPECT_EQ(FilesOf(work), v1);
}

TEST_F(ContentLockOfACheckpoint, NobodyReadsWhatAnInterruptedApplyLeftAndRecoveryWaitsForReaders) {
  const Path work = Work();
  {
    const WithFailpoints with("apply.tensors_half_written:error");
    EXPECT_FALSE(OpenAndApply(work, ThePatch(), one_));
  }
  EXPECT_THAT(ContentLock::Shared(work, kAtOnce), Fails(Code::kUnavailable, HasSubstr("interrupted")));
  {
    const ContentLock another = Must(ContentLock::Exclusive(work, kAtOnce));
    EXPECT_THAT(Open(work, kAtOnce), Fails(Code::kUnavailable));
  }
  EXPECT_THAT(Open(work, kAtOnce), Succeeds());
  EXPECT_EQ(FilesOf(work), v1);
  EXPECT_THAT(ContentLock::Shared(work, kAtOnce), Succeeds());
}

}  // namespace
}  // namespace skerry
