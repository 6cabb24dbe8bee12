#include "skerry/proxy/spans.h"

#include <gtest/gtest.h>

#include <string>

namespace skerry {
namespace {

std::string Body(std::string_view choices) {
  return R"({"id":"x","choices":)" + std::string(choices) + R"(,"usage":{}})";
}

std::string Choice(std::string_view account) {
  return R"({"index":0,"token_ids":[1,2],"weight_versions":)" + std::string(account) + R"(,"finish_reason":"stop"})";
}

std::string SpansOfChoices(const std::string& choices) { return SpansOf(Body(choices), "grpo-1").value_or("none"); }

TEST(Spans, AreTheEnginesAccountOfEachChoice) {
  const std::string two =
      Choice(R"([{"version":"grpo-1@7","start":0,"end":12},{"version":"grpo-1@8","start":12,"end":40}])");
  EXPECT_EQ(SpansOfChoices("[" + two + "]"), "7:0-12,8:12-40");
  EXPECT_EQ(SpansOfChoices("[" + two + " , " + Choice(R"([{"version":"grpo-1@7","start":0,"end":30}])") + "]"),
            "7:0-12,8:12-40;7:0-30");
}

TEST(Spans, OfAnotherRunOrWithoutALabelHaveNoNumber) {
  EXPECT_EQ(
      SpansOfChoices("[" + Choice(R"([{"version":"default","start":0,"end":1},{"version":"other@7","start":1,"end":2},
                                            {"version":"7","start":2,"end":3},{"version":"grpo-1@","start":3,"end":4}])") +
                     "]"),
      "?:0-1,?:1-2,?:2-3,?:3-4");
}

TEST(Spans, OfAChoiceWithoutAnAccountAreEmpty) {
  const std::string one = Choice(R"([{"version":"grpo-1@7","start":0,"end":1}])");
  EXPECT_EQ(SpansOfChoices("[{}," + one + ",null," + Choice("null") + "]"), ";7:0-1;;");
  EXPECT_EQ(SpansOfChoices("[" + Choice("[]") + "]"), "");
}

TEST(Spans, AreNoneWhereTheEngineGivesNone) {
  for (const char* body :
       {"", "{}", "[]", "text", R"({"choices":null})", R"({"choices":{}})", R"({"choices":[]})", R"({"choices":[{}]})",
        R"({"choices":[{"weight_versions":null}]})", R"({"weight_versions":[]})", R"({"choices":[)"}) {
    EXPECT_EQ(SpansOf(body, "grpo-1"), std::nullopt) << body;
  }
}

TEST(Spans, AreNoneWhereAnAccountIsMalformed) {
  const std::string good = Choice(R"([{"version":"grpo-1@7","start":0,"end":1}])");
  for (const char* account :
       {"{}", "7", "\"\"", "[7]", "[{}]", R"([{"version":7,"start":0,"end":1}])",
        R"([{"version":"grpo-1@7","start":-1,"end":1}])", R"([{"version":"grpo-1@7","start":0.5,"end":1}])",
        R"([{"version":"grpo-1@7","start":0,"end":"1"}])", R"([{"version":"grpo-1@7","start":0}])",
        R"([{"version":"grpo-1@7","start":0,"end":1,}])"}) {
    EXPECT_EQ(SpansOfChoices("[" + good + "," + Choice(account) + "]"), "none") << account;
  }
}

TEST(Spans, AreNoneBeyondTheirLimits) {
  const auto account = [](size_t spans) {
    std::string text = "[";
    for (size_t i = 0; i < spans; ++i)
      text += std::string(i > 0 ? "," : "") + R"({"version":"grpo-1@7","start":0,"end":1})";
    return text + "]";
  };
  // "7:0-1," is 6 bytes, the last one without its comma.
  EXPECT_EQ(SpansOfChoices("[" + Choice(account(682)) + "]").size(), 4091u);
  EXPECT_EQ(SpansOfChoices("[" + Choice(account(683)) + "]"), "none");
  EXPECT_EQ(SpansOfChoices("[" + Choice(account(400)) + "," + Choice(account(400)) + "]"), "none");
  std::string choices = Choice(account(1));
  for (size_t i = 1; i < kMostSpannedChoices; ++i) choices += ",{}";
  EXPECT_EQ(SpansOfChoices("[" + choices + "]").substr(0, 6), "7:0-1;");
  EXPECT_EQ(SpansOfChoices("[" + choices + ",{}]"), "none");
  std::string body = Body("[" + Choice(account(1)) + "]");
  body.append(kLongestSpansBody - body.size(), ' ');
  EXPECT_EQ(SpansOf(body, "grpo-1"), "7:0-1");
  EXPECT_EQ(SpansOf(body + " ", "grpo-1"), std::nullopt);
}

}  // namespace
}  // namespace skerry
