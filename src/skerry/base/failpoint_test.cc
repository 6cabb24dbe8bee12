#include "skerry/base/failpoint.h"

#include <cerrno>

#include "skerry/base/clock.h"
#include "skerry/base/simd.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Failpoint, DoesNothingUnlessAskedTo) {
  EXPECT_THAT(Failpoint("apply.journal_begun"), Succeeds());
  const WithFailpoints with("apply.journal_written:error");
  EXPECT_THAT(Failpoint("apply.journal_begun"), Succeeds());
  EXPECT_THAT(Failpoint("apply.journal_written"), Fails(Code::kIo, HasSubstr("apply.journal_written")));
  EXPECT_THAT(Failpoint("apply.journal_written"), Fails(Code::kIo)) << "every time";
}

TEST(Failpoint, ActsAtTheChosenHitOnly) {
  const WithFailpoints with("file.write:errno=28@3,file.sync:errno=5");
  EXPECT_EQ(FailpointErrno("file.write"), 0);
  EXPECT_EQ(FailpointErrno("file.sync"), EIO);
  EXPECT_EQ(FailpointErrno("file.write"), 0);
  EXPECT_EQ(FailpointErrno("file.write"), ENOSPC);
  EXPECT_EQ(FailpointErrno("file.write"), 0);
}

TEST(Failpoint, ActsFromOneHitToAnother) {
  const WithFailpoints with("file.write:errno=28@2-3");
  EXPECT_EQ(FailpointErrno("file.write"), 0);
  EXPECT_EQ(FailpointErrno("file.write"), ENOSPC);
  EXPECT_EQ(FailpointErrno("file.write"), ENOSPC);
  EXPECT_EQ(FailpointErrno("file.write"), 0);
}

TEST(Failpoint, ASecondRuleOfTheSameNameCountsOnItsOwn) {
  const WithFailpoints with("file.write:errno=28@1,file.write:errno=5@2");
  EXPECT_EQ(FailpointErrno("file.write"), ENOSPC);
  EXPECT_NE(FailpointErrno("file.write"), ENOSPC);
}

TEST(Failpoint, AFullDiskHasItsOwnCode) {
  const WithFailpoints with("publish.encoded:errno=28");
  EXPECT_THAT(Failpoint("publish.encoded"), Fails(Code::kNoSpace));
}

TEST(FailpointDeathTest, AnUnknownNameAbortsSoThatTheListStaysComplete) {
  ::testing::GTEST_FLAG(death_test_style) = "fast";
  const WithFailpoints with("file.sync:errno=5");
  EXPECT_DEATH((void)Failpoint("no.such_place"), "no.such_place is not in the list");
}

TEST(FailpointDeathTest, KillEndsTheProcessAtOnce) {
  ::testing::GTEST_FLAG(death_test_style) = "fast";
  EXPECT_EXIT(
      {
        SetFailpoints("file.sync:kill");
        (void)Failpoint("file.sync");
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(Failpoint, NamesAreUnique) {
  std::vector<std::string> names;
  for (const std::string_view name : FailpointNames()) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Result, AnnotationKeepsTheCodeAndPutsTheContextInFront) {
  const Status status = Annotate({Code::kCorrupt, "bad"}, "file x");
  EXPECT_THAT(status, Fails(Code::kCorrupt, ::testing::StrEq("file x: bad")));
}

TEST(Result, EveryCodeHasItsOwnName) {
  std::vector<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kIo); ++code) names.push_back(CodeName(static_cast<Code>(code)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Clock, FormatsUtcWithMilliseconds) {
  using namespace std::chrono;
  EXPECT_EQ(FormatTime(system_clock::time_point(milliseconds(0))), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatTime(system_clock::time_point(milliseconds(1'709'164'799'007))), "2024-02-28T23:59:59.007Z");
}

TEST(Simd, NamesAreUnderstoodOrListed) {
  for (const char* name : {"scalar", "ssse3", "sse4", "avx2", "avx3", "best", ""})
    EXPECT_THAT(SetSimd(name), Succeeds()) << name;
  EXPECT_THAT(SetSimd("scalar"), Succeeds());
  EXPECT_TRUE(SimdIsScalar());
  EXPECT_EQ(SimdName(), "scalar");
  EXPECT_THAT(SetSimd("avx1024"), Fails(Code::kInvalid, AllOf(HasSubstr("avx1024"), HasSubstr("avx2, sse4"))));
  EXPECT_THAT(SetSimd("best"), Succeeds());
  EXPECT_FALSE(SimdIsScalar());
}

}  // namespace
}  // namespace skerry
