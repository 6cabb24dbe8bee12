#include "skerry/agent/records.h"

#include "skerry/base/failpoint.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PolicyRecord, ThatCannotBeReadJustNowIsNotCalledDamaged) {
  TempDir state;
  EXPECT_EQ(Must(ReadPolicy(state.path())), std::nullopt);
  const Policy policy = Must(Policy::Parse(Must(RunId::Parse("r")), "7"));
  Must(WritePolicy(state.path(), policy));
  {
    const WithFailpoints with("file.open:errno=5");
    EXPECT_THAT(ReadPolicy(state.path()), Fails(Code::kIo, AllOf(HasSubstr("policy.json"), Not(HasSubstr("remove")))));
  }
  EXPECT_EQ(Must(ReadPolicy(state.path()))->Follow(), "7");
}

TEST(EngineRecords, VouchForNobodyWhereTheyCannotBeReadAndStayAsTheyWereWhereTheyCannotBeWritten) {
  TempDir state;
  {
    EngineRecords records(state.path());
    records.Set("vllm http://h", {"r@1", "instance"});
    Must(records.Save());
    records.Set("vllm http://h", {"r@2", "instance"});
    const WithFailpoints with("file.write:errno=28");
    EXPECT_THAT(records.Save(), Fails(Code::kNoSpace));
  }
  ASSERT_NE(EngineRecords(state.path()).Find("vllm http://h"), nullptr);
  EXPECT_EQ(EngineRecords(state.path()).Find("vllm http://h")->label, "r@1");
  const WithFailpoints with("file.open:errno=5");
  EXPECT_EQ(EngineRecords(state.path()).Find("vllm http://h"), nullptr);
}

}  // namespace
}  // namespace skerry
