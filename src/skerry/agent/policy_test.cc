#include "skerry/agent/policy.h"

#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RunId TheRun() { return *RunId::Parse("grpo-1"); }

Policy Follow(const std::string& text) { return *Policy::Parse(TheRun(), text); }

TEST(Policy, IsWrittenAsItIsRead) {
  for (const std::string text : {"head", "head~3", "0", "7"}) EXPECT_EQ(Follow(text).Follow(), text);
}

TEST(Policy, RefusesWhatIsNeitherTheHeadNorAVersion) {
  for (const std::string text : {"", "Head", "head~", "head~-1", "head+1", "-7", "7 ", "latest"}) {
    EXPECT_THAT(Policy::Parse(TheRun(), text), Fails(Code::kInvalid, HasSubstr("\"" + text + "\""))) << text;
  }
}

TEST(WantedVersion, IsTheHeadFromAnywhere) {
  EXPECT_EQ(WantedVersion(Follow("head"), Version(9), Version(3)), Version(9));
  EXPECT_EQ(WantedVersion(Follow("head"), Version(9), std::nullopt), Version(9));
}

TEST(WantedVersion, StaysWhileItIsNearEnoughThenGoesAllTheWay) {
  EXPECT_EQ(WantedVersion(Follow("head~2"), Version(9), Version(7)), Version(7));
  EXPECT_EQ(WantedVersion(Follow("head~2"), Version(9), Version(6)), Version(9));
  EXPECT_EQ(WantedVersion(Follow("head~2"), Version(1), std::nullopt), Version(1));
}

TEST(WantedVersion, NeverGoesBackBecauseTheBoardLags) {
  for (const char* follow : {"head", "head~2"}) {
    EXPECT_THAT(WantedVersion(Follow(follow), Version(4), Version(7)),
                Fails(Code::kUnavailable, AllOf(HasSubstr("4"), HasSubstr("7"), HasSubstr("lags"))));
  }
}

TEST(WantedVersion, GoesBackToAPinnedOneAndWaitsForOneThatIsNotThere) {
  EXPECT_EQ(WantedVersion(Follow("4"), Version(9), Version(7)), Version(4));
  EXPECT_THAT(WantedVersion(Follow("12"), Version(9), Version(7)),
              Fails(Code::kUnavailable, AllOf(HasSubstr("12"), HasSubstr("9"), HasSubstr("grpo-1"))));
}

}  // namespace
}  // namespace skerry
