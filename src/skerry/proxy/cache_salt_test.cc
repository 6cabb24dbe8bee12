#include "skerry/proxy/cache_salt.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "skerry/base/hash.h"
#include "skerry/proxy/json_texts_testing.h"

namespace skerry {
namespace {

std::string Salted(std::string_view body, SaltMember member = SaltMember::kCacheSalt) {
  return WithCacheSalt(body, member, "grpo-1:7");
}

TEST(CacheSalt, IsPutBehindTheLastMember) {
  EXPECT_EQ(Salted(R"({"prompt":"a"} )"), R"({"prompt":"a","cache_salt":"grpo-1:7"} )");
  EXPECT_EQ(Salted("{}"), R"({"cache_salt":"grpo-1:7"})");
  EXPECT_EQ(Salted("{}", SaltMember::kExtraKey), R"({"extra_key":"grpo-1:7"})");
}

TEST(CacheSalt, OfTheCallerStandsBehindOurs) {
  EXPECT_EQ(Salted(R"({"cache_salt": "mine" , "a":1})"), R"({"cache_salt": "grpo-1:7:mine" , "a":1})");
  EXPECT_EQ(Salted(R"({"cache\u005fsalt":"\u00e9\"x"})"), R"({"cache\u005fsalt":"grpo-1:7:\u00e9\"x"})");
  EXPECT_EQ(Salted(R"({"cache_salt":null})"), R"({"cache_salt":"grpo-1:7"})");
  EXPECT_EQ(Salted(R"({"cache_salt":""})"), R"({"cache_salt":"grpo-1:7"})");
  EXPECT_EQ(Salted(R"({"extra_key":"mine"})"), R"({"extra_key":"mine","cache_salt":"grpo-1:7"})");
  EXPECT_EQ(Salted(R"({"a":{"cache_salt":"mine"}})"), R"({"a":{"cache_salt":"mine"},"cache_salt":"grpo-1:7"})");
}

TEST(CacheSalt, ChangesEachOfARepeatedMember) {
  EXPECT_EQ(Salted(R"({"cache_salt":"a","cache_salt":null,"x":1,"cache_salt":3})"),
            R"({"cache_salt":"grpo-1:7:a","cache_salt":"grpo-1:7","x":1,"cache_salt":3})");
}

TEST(CacheSalt, GoesIntoEachElementOfAList) {
  EXPECT_EQ(Salted(R"({"extra_key":[ "a" ,null,"",[1],{}] })", SaltMember::kExtraKey),
            R"({"extra_key":[ "grpo-1:7:a" ,"grpo-1:7","grpo-1:7",[1],{}] })");
  EXPECT_EQ(Salted(R"({"extra_key":[]})", SaltMember::kExtraKey), R"({"extra_key":[]})");
}

TEST(CacheSalt, LeavesAloneWhatTheEngineRefuses) {
  for (const char* body : {"", "[]", "{", "{\"a\":1,}", "text", R"({"cache_salt":7})", R"({"cache_salt":{"a":null}})",
                           R"({"cache_salt":[,]})", R"({"cache_salt":true})"}) {
    EXPECT_EQ(Salted(body), body);
  }
  EXPECT_EQ(Salted(R"({"a":1})", SaltMember::kNone), R"({"a":1})");
}

TEST(CacheSalt, IsNeverLongerThanTheEngineTakes) {
  const std::string label = CacheLabel(std::string(RunId::kMaxPartSize, 'r'), Version(Version::kMax), "0123abcd");
  const auto salt_of = [&](const std::string& own) {
    const std::string body = nlohmann::json{{"cache_salt", own}}.dump(-1, ' ', own.size() % 2 == 0);
    return nlohmann::json::parse(WithCacheSalt(body, SaltMember::kCacheSalt, label))["cache_salt"].get<std::string>();
  };
  const size_t left = kLongestCacheSalt - label.size() - 1;
  EXPECT_EQ(salt_of(std::string(left, 'x')), label + ":" + std::string(left, 'x'));
  const std::string longer(left + 1, 'x');
  EXPECT_EQ(salt_of(longer), label + ":" + Sha256::Of(longer).Hex().substr(0, 32));
  EXPECT_NE(salt_of(longer), salt_of(longer + "x"));
  // It counts characters, however they are written.
  std::string wide;
  for (size_t i = 0; i < left; ++i) wide += "é";
  EXPECT_EQ(salt_of(wide), label + ":" + wide);
  EXPECT_EQ(salt_of(wide + "é"), label + ":" + Sha256::Of(wide + "é").Hex().substr(0, 32));
}

TEST(CacheSalt, HasNoCharacterThatVllmRefuses) {
  EXPECT_EQ(CacheLabel("a.B_9-c/fp8", Version(12), "0123abcd").find_first_of(std::string_view("@/\\\0", 4)),
            std::string::npos);
}

RC_GTEST_PROP(CacheSalt, ChangesNothingElse, (uint64_t seed)) {
  const std::string body = JsonTexts(seed).Object();
  RC_LOG() << body << "\n";
  auto expected = nlohmann::json::parse(body);
  const std::string label = "grpo-1:7";
  const auto salted = [&](nlohmann::json& value) {
    if (value.is_string() && value != "") value = label + ":" + value.get<std::string>();
    if (value.is_null() || value == "") value = label;
  };
  if (!expected.contains("cache_salt")) {
    expected["cache_salt"] = label;
  } else if (expected["cache_salt"].is_array()) {
    for (auto& element : expected["cache_salt"]) salted(element);
  } else {
    salted(expected["cache_salt"]);
  }
  RC_ASSERT(nlohmann::json::parse(Salted(body)) == expected);
}

}  // namespace
}  // namespace skerry
