#include "skerry/publish/fork.h"

#include "skerry/board/collect.h"
#include "skerry/board/collect_mark.h"
#include "tests/testing/publishing.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ForkTest : public PublishTestBase {
 protected:
  // Run grpo-1 with versions 0 to 3.
  ForkTest() {
    Must(Init(run_));
    for (int i = 0; i < 3; ++i) {
      Step();
      Must(Publish(run_));
    }
  }
  Result<ForkReceipt> Fork(std::optional<uint64_t> version = std::nullopt) {
    std::optional<Version> asked;
    if (version) asked = Version(*version);
    return ForkRun(board_, fork_, run_, asked, clock_);
  }
  const RunId fork_ = Run("grpo-1-again");
};

TEST_F(ForkTest, BeginsAtAVersionOfAnotherRunAndComesOutByteForByte) {
  const ForkReceipt receipt = Must(Fork(1));
  EXPECT_TRUE(receipt.created);
  EXPECT_EQ(receipt.origin.version, Version(1));
  const Manifest origin = Must(board_.ReadManifest(run_, Version(1)));
  const Manifest first = Must(board_.ReadManifest(fork_, Version(0)));
  EXPECT_EQ(first.model, origin.model);
  EXPECT_EQ(first.layout, origin.layout);
  EXPECT_EQ(first.side_files, origin.side_files);
  EXPECT_EQ(first.fork, receipt.origin);
  EXPECT_TRUE(first.edges.empty() && first.anchors.empty());
  EXPECT_EQ(Must(board_.ReadRun(fork_)).parent, receipt.origin);
  Must(CatchUp(fork_, directory_ / "reader"));
  EXPECT_EQ(FilesOf(directory_ / "reader"), versions_[run_][1]);
}

TEST_F(ForkTest, GoesOnWithVersionsOfItsOwnAndLeavesTheOtherRunAlone) {
  Must(Fork(1));
  Step();
  Must(Publish(fork_));
  Must(CatchUp(fork_, directory_ / "reader"));
  EXPECT_EQ(FilesOf(directory_ / "reader"), versions_[fork_][1]);
  EXPECT_EQ(HeadOf(run_), Version(3));
  Must(CatchUp(run_, directory_ / "other"));
  EXPECT_EQ(FilesOf(directory_ / "other"), versions_[run_][3]);
}

TEST_F(ForkTest, BeginsAtTheHeadUnlessToldOtherwiseAndAgainIsANoOp) {
  EXPECT_EQ(Must(Fork()).origin.version, Version(3));
  const std::vector<std::string> there = Must(store_->List(""));
  Step();
  Must(Publish(run_));
  const ForkReceipt again = Must(Fork());
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.origin.version, Version(3));
  EXPECT_FALSE(Must(Fork(3)).created);
}

TEST_F(ForkTest, ARunFromElsewhereIsAConflict) {
  Must(Fork(1));
  EXPECT_THAT(Fork(2), Fails(Code::kConflict, AllOf(HasSubstr("version 1 of run grpo-1"), HasSubstr("not from 2"))));
  const RunId other = Run("other");
  Must(Init(other));
  EXPECT_THAT(ForkRun(board_, other, run_, Version(1), clock_), Fails(Code::kConflict, HasSubstr("no fork")));
  EXPECT_THAT(ForkRun(board_, fork_, other, Version(1), clock_), Fails(Code::kConflict, HasSubstr("grpo-1")));
}

TEST_F(ForkTest, WhatIsNotThereCannotBeForked) {
  EXPECT_THAT(Fork(9), Fails(Code::kNotFound, AllOf(HasSubstr("version 3"), HasSubstr("9"))));
  EXPECT_THAT(ForkRun(board_, fork_, Run("nobody"), std::nullopt, clock_), Fails(Code::kNotFound, HasSubstr("nobody")));
  EXPECT_THAT(ForkRun(board_, run_, run_, Version(1), clock_), Fails(Code::kInvalid, HasSubstr("itself")));
  EXPECT_THAT(board_.ReadHead(fork_), Fails(Code::kNotFound));
}

TEST_F(ForkTest, AFailureAnywhereIsTakenOverByTheNextCall) {
  int failures = 0;
  for (const std::string_view name : FailpointNames()) {
    if (!name.starts_with("fork.")) continue;
    const RunId run = Run(fmt::format("run-{}", name));
    {
      const WithFailpoints with(fmt::format("{}:error", name));
      EXPECT_THAT(ForkRun(board_, run, run_, Version(2), clock_), Fails(Code::kIo)) << name;
    }
    EXPECT_EQ(board_.ReadHead(run).has_value(), name == "fork.head_stored") << name;
    Must(ForkRun(board_, run, run_, Version(2), clock_));
    EXPECT_EQ(Must(board_.ReadRun(run)).parent->version, Version(2)) << name;
    Must(CatchUp(run, directory_ / run.str()));
    EXPECT_EQ(FilesOf(directory_ / run.str()), versions_[run_][2]) << name;
    ++failures;
  }
  EXPECT_EQ(failures, 3);
}

TEST_F(ForkTest, GcKeepsTheWayToAFork) {
  Must(Fork(1));
  const CollectOptions options{.policy = {.keep_versions = 1}, .grace = std::chrono::seconds(0)};
  Must(Collect(board_, options, clock_));
  Must(CatchUp(fork_, directory_ / "reader"));
  EXPECT_EQ(FilesOf(directory_ / "reader"), versions_[run_][1]);
}

TEST_F(ForkTest, AVersionThatGcIsAboutToRemoveIsRefused) {
  const CollectMark mark{.run = run_, .condemned = {{ManifestKey(run_, Version(2)), 1}}};
  Must(store_->CompareAndSwap(CollectMarkKey(run_), std::nullopt, Must(SerializeCollectMark(mark))));
  EXPECT_THAT(Fork(2), Fails(Code::kConflict, AllOf(HasSubstr("version 2"), HasSubstr("gc"))));
  EXPECT_TRUE(Must(Fork(1)).created);
}

}  // namespace
}  // namespace skerry
