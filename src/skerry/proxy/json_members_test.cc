#include "skerry/proxy/json_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "skerry/proxy/json_members_testing.h"
#include "skerry/proxy/json_texts_testing.h"

namespace skerry {
namespace {

std::string Without(std::string_view object, std::string_view name) {
  const auto members = FindMembers(object);
  return members ? WithoutMembers(object, *members, name) : "no object";
}

std::vector<std::string> Values(std::string_view object) {
  std::vector<std::string> values;
  const auto members = FindMembers(object).value();
  for (const JsonMember& member : members) values.emplace_back(member.value);
  return values;
}

RC_GTEST_PROP(JsonMembers, AreThoseThatADecoderFinds, (uint64_t seed)) {
  const std::string object = JsonTexts(seed).Object();
  RC_LOG() << object << "\n";
  RC_ASSERT(MembersByDecoder(object).has_value());
  RC_ASSERT(MembersAgree(object));
}

RC_GTEST_PROP(JsonMembers, TakenOutLeaveAllOtherBytes, (uint64_t seed)) {
  const std::string object = JsonTexts(seed).Object();
  RC_LOG() << object << "\n";
  const auto members = FindMembers(object).value();
  const std::string left = WithoutMembers(object, members, "a");

  auto kept = MembersByDecoder(object).value();
  std::erase_if(kept, [](const auto& member) { return member.first == "a"; });
  RC_ASSERT(MembersAgree(left));
  const auto found = MembersByDecoder(left);
  RC_ASSERT(found == kept);

  // The same from the other end: what was taken out, and as many commas, put back in their places.
  size_t taken = 0, count = 0;
  for (const JsonMember& member : members) {
    if (member.name != "a") continue;
    taken += member.end - member.begin;
    ++count;
  }
  const size_t commas = kept.empty() && count > 0 ? count - 1 : count;
  RC_ASSERT(left.size() == object.size() - taken - commas);
  std::string bytes = left;
  for (const JsonMember& member : members) {
    if (member.name == "a") bytes += object.substr(member.begin, member.end - member.begin);
  }
  bytes += std::string(commas, ',');
  RC_ASSERT(std::is_permutation(bytes.begin(), bytes.end(), object.begin(), object.end()));
}

RC_GTEST_PROP(JsonMembers, PutInAndTakenOutAgainGiveTheTextBack, (uint64_t seed)) {
  const std::string object = JsonTexts(seed).Object();
  const auto members = FindMembers(object).value();
  const std::string with = WithMember(object, members.empty(), "\"new\":[1,{}]");
  RC_ASSERT(MembersAgree(with));
  RC_ASSERT(FindMembers(with)->back().name == "new");
  RC_ASSERT(Without(with, "new") == object);
}

RC_GTEST_PROP(JsonMembers, OfATextThatWasCutOffAreNone, (uint64_t seed)) {
  JsonTexts texts(seed);
  const std::string object = texts.Object();
  const size_t whole = object.find_last_of('}') + 1;
  RC_ASSERT(!FindMembers(std::string_view(object).substr(0, texts.Below(whole))));
}

TEST(JsonMembers, StandWhereTheySayTheyDo) {
  const std::string_view object = R"( { "a" : [1, 2] , "b\n":"x" } )";
  const auto members = FindMembers(object).value();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(object.substr(members[0].begin, members[0].end - members[0].begin), R"("a" : [1, 2])");
  EXPECT_EQ(members[0].value, "[1, 2]");
  EXPECT_EQ(members[1].name, "b\n");
  EXPECT_EQ(object.substr(members[1].begin, members[1].end - members[1].begin), R"("b\n":"x")");
}

TEST(JsonMembers, NeedASingleObject) {
  for (const char* text : {"",
                           " ",
                           "[]",
                           "[{\"a\":1}]",
                           "1",
                           "\"{}\"",
                           "null",
                           "{",
                           "}",
                           "{}}",
                           "{} {}",
                           "{},",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{,\"a\":1}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\" 1}",
                           "{a:1}",
                           "{'a':1}",
                           "{\"a\":1]",
                           "{\"a\":[}",
                           "{\"a\":\"}",
                           "{\"a\":\"\\\"}",
                           "{\"a\\\":1}",
                           "{\"\\x\":1}",
                           "{\"\\u12g4\":1}",
                           "{\"\\u12\":1}",
                           "{\"a\":1}x",
                           "{\"a\":/**/1}",
                           "\xEF\xBB{}",
                           "\xFE\xFF\0{"}) {
    EXPECT_FALSE(FindMembers(text)) << text;
  }
  EXPECT_FALSE(FindMembers(std::string_view("{}\0", 3)));
}

TEST(JsonMembers, OfAnEmptyObjectAreNone) {
  for (const char* text : {"{}", " {\n} \r\n", "\xEF\xBB\xBF{}"}) {
    ASSERT_TRUE(FindMembers(text)) << text;
    EXPECT_TRUE(FindMembers(text)->empty()) << text;
  }
}

TEST(JsonMembers, WhatPythonTakesBesidesJsonIsPassedOver) {
  EXPECT_THAT(Values(R"({"a":NaN,"b":-Infinity,"c":1})"), testing::ElementsAre("NaN", "-Infinity", "1"));
}

TEST(JsonMembers, HalfASurrogateInANameIsNoReasonToLoseTheOthers) {
  const auto members = FindMembers(R"({"\ud83d":1,"\udc0b\ud83d":2,"\ud83d\u0061":3,"weight_version":4})").value();
  EXPECT_EQ(members[2].name,
            "\xED\xA0\xBD"
            "a");
  EXPECT_EQ(members[3].name, "weight_version");
}

TEST(JsonMembers, BackslashesBeforeAQuoteAreCounted) {
  EXPECT_THAT(Values(R"({"a":"\\","b":"\\\"","c":["\\\\","\"]"],"d":"\\\\\\"})"),
              testing::ElementsAre(R"("\\")", R"("\\\"")", R"(["\\\\","\"]"])", R"("\\\\\\")"));
}

TEST(JsonMembers, OfHugeTextsCostNeitherStackNorQuadraticTime) {
  constexpr size_t kMany = 4 << 20;
  std::string slashes(kMany, '\\'), quotes, members = "\"0\":0";
  for (size_t i = 0; i < kMany / 2; ++i) quotes += "\\\"";
  for (size_t i = 1; i < 100'000; ++i) members += fmt::format(",\"{}\":{}", i, i);
  for (const std::string& value : {"\"" + std::string(kMany, 'x') + "\"", "\"" + slashes + "\"", "\"" + quotes + "\"",
                                   std::string(kMany, '[') + std::string(kMany, ']')}) {
    EXPECT_THAT(Values("{\"a\":" + value + ",\"b\":1}"), testing::ElementsAre(value, "1"));
  }
  EXPECT_EQ(FindMembers("{" + members + "}")->size(), 100'000u);
  EXPECT_FALSE(FindMembers("{\"a\":" + std::string(kMany, '[')));
}

TEST(JsonMembers, TakenOutOfAnyPlaceTakeOneCommaAlong) {
  EXPECT_EQ(Without(R"({"x":1})", "x"), "{}");
  EXPECT_EQ(Without(R"({"x":1,"a":2})", "x"), R"({"a":2})");
  EXPECT_EQ(Without(R"({"a":2,"x":1})", "x"), R"({"a":2})");
  EXPECT_EQ(Without(R"({"a":2,"x":1,"b":3})", "x"), R"({"a":2,"b":3})");
  EXPECT_EQ(Without(R"({"x":1,"a":2,"x":3,"x":4,"b":5,"x":6})", "x"), R"({"a":2,"b":5})");
  EXPECT_EQ(Without(R"({"x":1,"x":2})", "x"), "{}");
  EXPECT_EQ(Without("{ \"x\" : [1,2] ,\n \"a\":\"x,\" }\n", "x"), "{  \n \"a\":\"x,\" }\n");
  EXPECT_EQ(Without(R"({"a":{"x":1}})", "x"), R"({"a":{"x":1}})");
}

TEST(JsonMembers, PutInStandBeforeTheLastBrace) {
  EXPECT_EQ(WithMember("{}", true, "\"x\":1"), "{\"x\":1}");
  EXPECT_EQ(WithMember("{\"a\":{} }\n", false, "\"x\":1"), "{\"a\":{} ,\"x\":1}\n");
  EXPECT_EQ(WithMember("no object", false, "\"x\":1"), "no object");
}

}  // namespace
}  // namespace skerry
