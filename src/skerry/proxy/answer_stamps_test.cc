#include "skerry/proxy/answer_stamps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "skerry/proxy/json_texts_testing.h"
#include "skerry/proxy/stamps_testing.h"

namespace skerry {
namespace {

constexpr Version kStart(7), kEnd(8);

std::set<size_t> EveryPlace(std::string_view body) {
  std::set<size_t> cuts;
  for (size_t at = 1; at < body.size(); ++at) cuts.insert(at);
  return cuts;
}

RC_GTEST_PROP(AnswerStamps, AreTheSameHoweverTheBodyIsCut, (uint64_t seed, const std::set<uint8_t>& places)) {
  const std::string body = JsonTexts(seed).Object();
  RC_LOG() << body << "\n";
  const std::string whole = StampedAnswer(body, kStart, kEnd);
  RC_ASSERT(StampedAnswerInPieces(body, EveryPlace(body), kStart, kEnd) == whole);
  RC_ASSERT(StampedAnswerInPieces(body, {places.begin(), places.end()}, kStart, kEnd) == whole);
  RC_ASSERT(Without(Without(whole, AnswerStamp(kStart, kEnd, true)), AnswerStamp(kStart, kEnd, false)) == body);
  const auto expected = nlohmann::json::parse(body), found = nlohmann::json::parse(whole);
  RC_ASSERT(found["weight_version_start"] == 7);
  RC_ASSERT(found["weight_version_end"] == 8);
  RC_ASSERT(found.size() == expected.size() + 2);
}

RC_GTEST_PROP(AnswerStamps, ChangeNoOtherByteOfBodiesOfBracesAndSpace,
              (uint64_t seed, const std::set<uint8_t>& places)) {
  JsonTexts random(seed);
  std::string body;
  const char* const bytes = random.Below(2) ? "{} \n,[\"a" : "}} \n}} \n";
  for (size_t i = random.Below(20); i > 0; --i) body += bytes[random.Below(8)];
  if (random.Below(2)) body.insert(0, "{");
  const std::string whole = StampedAnswer(body, kStart, kEnd);
  RC_ASSERT(StampedAnswerInPieces(body, EveryPlace(body), kStart, kEnd) == whole);
  RC_ASSERT(StampedAnswerInPieces(body, {places.begin(), places.end()}, kStart, kEnd) == whole);
  RC_ASSERT(Without(Without(whole, AnswerStamp(kStart, kEnd, true)), AnswerStamp(kStart, kEnd, false)) == body);
}

TEST(AnswerStamps, StandBehindTheLastMember) {
  EXPECT_EQ(StampedAnswer("{\"a\":{}}", kStart, kEnd),
            "{\"a\":{},\"weight_version_start\":7,\"weight_version_end\":8}");
  EXPECT_EQ(StampedAnswer("\r\n {\"a\":1 }\n\n", kStart, kEnd),
            "\r\n {\"a\":1 ,\"weight_version_start\":7,\"weight_version_end\":8}\n\n");
}

TEST(AnswerStamps, HaveNoCommaInAnEmptyObject) {
  EXPECT_EQ(StampedAnswer("{}", kStart, kEnd), "{\"weight_version_start\":7,\"weight_version_end\":8}");
  EXPECT_EQ(StampedAnswerInPieces("{ \n}\n", {1, 2, 3, 4}, kStart, kEnd),
            "{ \n\"weight_version_start\":7,\"weight_version_end\":8}\n");
}

TEST(AnswerStamps, SayNullForAnUnknownEnd) {
  EXPECT_EQ(StampedAnswer("{}", kStart, std::nullopt), "{\"weight_version_start\":7,\"weight_version_end\":null}");
}

TEST(AnswerStamps, AreForObjectsAlone) {
  for (const char* body :
       {"", " ", "[{}]", "[1}", "}", "\"{}\"", "text}", "{", "{\"a\":1", "{\"a\":1}]", "\xEF\xBB\xBF{}"}) {
    EXPECT_EQ(StampedAnswer(body, kStart, kEnd), body);
  }
}

TEST(AnswerStamps, HoldBackNothingButTheEnd) {
  AnswerStamper stamper;
  std::string out;
  stamper.Pass("{\"a\":{}", out);
  EXPECT_EQ(out, "{\"a\":{");
  stamper.Pass(",\"b\":\"x", out);
  EXPECT_EQ(out, "{\"a\":{},\"b\":\"x");
  stamper.Pass("\"} \n", out);
  EXPECT_EQ(out, "{\"a\":{},\"b\":\"x\"");
}

TEST(AnswerStamps, AreLeftOutWhereTooMuchSpaceFollows) {
  for (const size_t spaces : {4096u, 4097u}) {
    const std::string body = "{\"a\":1}" + std::string(spaces, ' ');
    const std::string whole = StampedAnswer(body, kStart, kEnd);
    EXPECT_EQ(whole == body, spaces > 4096);
    EXPECT_EQ(StampedAnswerInPieces(body, {6, 7, 3000, 4103}, kStart, kEnd), whole);
    const std::string longer = body + "}";
    EXPECT_EQ(StampedAnswerInPieces(longer, {7, 4103}, kStart, kEnd), StampedAnswer(longer, kStart, kEnd));
    const std::string two = "{}" + std::string(spaces, ' ') + "}";
    EXPECT_EQ(StampedAnswer(two, kStart, kEnd),
              "{}" + std::string(spaces, ' ') + AnswerStamp(kStart, kEnd, true) + "}");
    EXPECT_EQ(StampedAnswerInPieces(two, {2, two.size() - 1}, kStart, kEnd), StampedAnswer(two, kStart, kEnd));
  }
}

}  // namespace
}  // namespace skerry
