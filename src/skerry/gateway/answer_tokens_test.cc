#include "skerry/gateway/answer_tokens.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "skerry/gateway/rate.h"

namespace skerry {
namespace {

uint64_t Count(const std::string& type, const std::vector<std::string>& pieces) {
  AnswerTokens tokens(HttpHeaders{{"Content-Type", type}});
  for (const std::string& piece : pieces) tokens.Pass(piece);
  return tokens.Finish();
}

const std::string kEvents =
    "data: {\"a\": 1}\n\n: a comment\n\ndata: {}\r\n\r\nid: 7\ndata: x\ndata: y\n\ndata: [DONE]\n\n"
    "event: skerry.summary\ndata: {}\n\n";

TEST(AnswerTokens, AreTheEventsOfAStream) { EXPECT_EQ(Count("text/event-stream; charset=utf-8", {kEvents}), 3u); }

RC_GTEST_PROP(AnswerTokens, DoNotDependOnThePieces, ()) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < kEvents.size();) {
    const size_t size = *rc::gen::inRange<size_t>(1, 9);
    pieces.push_back(kEvents.substr(at, size));
    at += size;
  }
  RC_ASSERT(Count("text/event-stream", pieces) == 3);
}

TEST(AnswerTokens, AreWhatAJsonAnswerSaysAtItsEnd) {
  const std::string usage = R"("usage": {"prompt_tokens": 3, "completion_tokens": 41, "total_tokens": 44}})";
  const std::string text = std::string(10'000, 'x');
  EXPECT_EQ(Count("application/json", {"{", text, usage}), 41u);
  EXPECT_EQ(Count("application/json", {"{" + text + usage.substr(0, 50), usage.substr(50)}), 41u);
  EXPECT_EQ(Count("application/json", {R"({"usage":{"output_tokens":5}})"}), 5u);
  EXPECT_EQ(Count("application/json", {R"({"usage":{"completion_tokens":99999999999999999999}})"}), 0u);
  EXPECT_EQ(Count("application/json", {"{}"}), 0u);
  EXPECT_EQ(Count("text/plain", {usage}), 0u);
}

TEST(Rate, IsThatOfTheLastTenSeconds) {
  const Rate::Time begin{std::chrono::seconds(5'000)};
  Rate rate;
  for (int second = 0; second < 20; ++second) rate.Add(30, begin + std::chrono::seconds(second));
  EXPECT_DOUBLE_EQ(rate.PerSecond(begin + std::chrono::seconds(20)), 30);
  EXPECT_DOUBLE_EQ(rate.PerSecond(begin + std::chrono::seconds(25)), 15);
  EXPECT_DOUBLE_EQ(rate.PerSecond(begin + std::chrono::seconds(60)), 0);
}

}  // namespace
}  // namespace skerry
