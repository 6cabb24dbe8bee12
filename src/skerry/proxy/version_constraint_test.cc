#include "skerry/proxy/version_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

using std::chrono::milliseconds;

VersionConstraint Parsed(const HttpHeaders& headers, std::string_view body_member = "") {
  const auto constraint = ParseVersionConstraint(headers, body_member);
  EXPECT_TRUE(constraint) << (constraint ? "" : constraint.error().message);
  return constraint.value_or(VersionConstraint{});
}

std::string Refusal(const HttpHeaders& headers, std::string_view body_member = "") {
  const auto constraint = ParseVersionConstraint(headers, body_member);
  if (constraint) return "taken";
  EXPECT_EQ(constraint.error().code, Code::kInvalid);
  return constraint.error().message;
}

TEST(VersionConstraint, IsNoneWhereNothingIsSaid) {
  for (const VersionConstraint& constraint : {Parsed({}), Parsed({{"Skerry-Other", "7"}}), Parsed({}, "{}")}) {
    EXPECT_FALSE(constraint.pinned());
    EXPECT_FALSE(constraint.wait);
    EXPECT_TRUE(constraint.MetBy(Version(0)));
    EXPECT_FALSE(constraint.IsAhead(Version(0)));
  }
}

TEST(VersionConstraint, ComesFromHeaders) {
  EXPECT_EQ(Parsed({{"skerry-min-version", "7"}}).min, Version(7));
  EXPECT_EQ(Parsed({{"Skerry-Exact-Version", "0"}}).exact, Version(0));
  EXPECT_EQ(Parsed({{"Skerry-Exact-Version", "999999999"}}).wanted(), Version(999'999'999));
  const auto both = Parsed({{"Skerry-Min-Version", "7"}, {"Skerry-Wait", "2.5"}});
  EXPECT_EQ(both.min, Version(7));
  EXPECT_EQ(both.wait, milliseconds(2500));
}

TEST(VersionConstraint, ComesFromTheBody) {
  const auto constraint = Parsed({}, R"({ "min_version" : 7, "wait": 0.25 })");
  EXPECT_EQ(constraint.min, Version(7));
  EXPECT_EQ(constraint.wait, milliseconds(250));
  EXPECT_EQ(Parsed({}, R"({"exact\u005fversion":12})").exact, Version(12));
}

TEST(VersionConstraint, IsMetByVersions) {
  const auto min = Parsed({{"Skerry-Min-Version", "7"}}), exact = Parsed({{"Skerry-Exact-Version", "7"}});
  for (const uint64_t version : {6, 7, 8}) {
    EXPECT_EQ(min.MetBy(Version(version)), version >= 7);
    EXPECT_EQ(exact.MetBy(Version(version)), version == 7);
    EXPECT_EQ(min.IsAhead(Version(version)), version < 7);
    EXPECT_EQ(exact.IsAhead(Version(version)), version < 7);
  }
}

TEST(VersionConstraint, MayBeSaidTwiceInDifferentPlacesIfItIsTheSame) {
  EXPECT_EQ(Parsed({{"Skerry-Min-Version", "7"}}, R"({"min_version":7})").min, Version(7));
  EXPECT_EQ(Parsed({{"Skerry-Wait", "1"}}, R"({"wait":1.0})").wait, milliseconds(1000));
  EXPECT_EQ(Refusal({{"Skerry-Min-Version", "7"}}, R"({"min_version":8})"),
            "weight_version.min_version: \"8\" differs from Skerry-Min-Version");
  EXPECT_NE(Refusal({{"Skerry-Wait", "1"}}, R"({"wait":2})"), "taken");
}

TEST(VersionConstraint, MustNotBeSaidTwiceInOnePlace) {
  EXPECT_EQ(Refusal({{"Skerry-Min-Version", "7"}, {"skerry-min-version", "7"}}),
            "Skerry-Min-Version: given twice, the second time as \"7\"");
  EXPECT_NE(Refusal({}, R"({"min_version":7,"min\u005fversion":7})"), "taken");
  EXPECT_NE(Refusal({{"Skerry-Min-Version", "7"}}, R"({"min_version":7,"min_version":7})"), "taken");
}

TEST(VersionConstraint, IsEitherAMinimumOrExact) {
  EXPECT_EQ(Refusal({{"Skerry-Min-Version", "7"}, {"Skerry-Exact-Version", "8"}}),
            "Skerry-Min-Version is 7 and Skerry-Exact-Version is 8: only one of them may be given");
  EXPECT_NE(Refusal({{"Skerry-Min-Version", "7"}}, R"({"exact_version":7})"), "taken");
  EXPECT_NE(Refusal({}, R"({"min_version":7,"exact_version":7})"), "taken");
}

TEST(VersionConstraint, NumbersAreWholeAndInRange) {
  for (const char* text : {"", "-1", "+1", "1.0", "1e3", "0x7", "007", "1000000000", "99999999999999999999", "7 ", " 7",
                           "seven", "7,7", "NaN", "\"7\"", "null"}) {
    EXPECT_THAT(Refusal({{"Skerry-Min-Version", text}}), testing::StartsWith("Skerry-Min-Version: \"")) << text;
    EXPECT_THAT(Refusal({{"Skerry-Exact-Version", text}}), testing::StartsWith("Skerry-Exact-Version: \"")) << text;
    if (std::string_view(text).find_first_of(" ,") == std::string_view::npos && *text) {
      EXPECT_NE(Refusal({}, fmt::format("{{\"min_version\":{}}}", text)), "taken") << text;
    }
  }
}

TEST(VersionConstraint, AWaitIsAtMostAnHour) {
  EXPECT_EQ(Parsed({{"Skerry-Wait", "0"}}).wait, milliseconds(0));
  EXPECT_EQ(Parsed({{"Skerry-Wait", "1.1"}}).wait, milliseconds(1100));
  EXPECT_EQ(Parsed({{"Skerry-Wait", "3600"}}).wait, kLongestWait);
  EXPECT_EQ(Parsed({}, R"({"wait":1e-1})").wait, milliseconds(100));
  for (const char* text :
       {"", "-1", "-0", "+1", "3600.0001", "1e9", "1e999", "nan", "inf", "0x1", "1s", "1,5", ".5", " 1", "1 "}) {
    EXPECT_THAT(Refusal({{"Skerry-Wait", text}}), testing::StartsWith("Skerry-Wait: \"")) << text;
  }
  EXPECT_NE(Refusal({}, R"({"wait":"1"})"), "taken");
  EXPECT_NE(Refusal({}, R"({"wait":null})"), "taken");
}

TEST(VersionConstraint, OfABodyIsAnObjectOfKnownMembers) {
  for (const char* member :
       {"7", "null", "[]", "\"7\"", "true", "{\"min_version\":7", R"({"min":7})", R"({"min_version":7,"x":1})"}) {
    EXPECT_THAT(Refusal({}, member), testing::StartsWith("weight_version")) << member;
  }
  EXPECT_EQ(Refusal({}, R"({"min":7})"), "weight_version.min: there is no such member (\"7\")");
}

TEST(VersionConstraint, ARefusalShowsLittleOfTheValueAndNoControlCharacters) {
  const std::string shown = Refusal({{"Skerry-Min-Version", std::string(5000, '7')}});
  EXPECT_THAT(shown, testing::HasSubstr("\"" + std::string(40, '7') + "…\""));
  EXPECT_LT(shown.size(), 120u);
  EXPECT_THAT(Refusal({}, "{\"min_version\":\"\x1B[2J\"}"), testing::HasSubstr("\\x1b"));
  EXPECT_LT(Refusal({}, "{\"" + std::string(5000, 'a') + "\":1}").size(), 120u);
  EXPECT_LT(Refusal({}, "{\"" + std::string(5000, '\\') + "\":1").size(), 300u);
}

}  // namespace
}  // namespace skerry
