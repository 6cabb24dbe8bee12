#include "skerry/gateway/island_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

nlohmann::json Good() {
  return {{"format", 1},     {"url", "http://10.0.0.3:8089"},
          {"name", "agent"}, {"instance", "1"},
          {"run", "r"},      {"version", 7},
          {"head", 8},       {"ready", true},
          {"engines", 2},    {"running", 3},
          {"capacity", 512}};
}

TEST(IslandReport, ComesBackAsItWasWritten) {
  IslandReport report{.url = "http://[::1]:8089", .name = "a", .instance = "x", .region = "eu", .run = "r/fp8"};
  report.version = Version(7);
  report.ready = true;
  report.running = 5;
  report.held = 2;
  report.engines = 3;
  report.capacity = 9;
  const IslandReport back = Must(ParseIslandReport(ToJson(report)));
  EXPECT_FALSE(back.DiffersFrom(report));
  EXPECT_EQ(std::tie(back.name, back.running, back.held, back.engines, back.head, back.because),
            std::tie(report.name, report.running, report.held, report.engines, report.head, report.because));
  report.url = "";
  report.port = 81;
  EXPECT_EQ(Must(ParseIslandReport(ToJson(report))).port, 81);
}

TEST(IslandReport, MayHaveMembersOfLaterDays) {
  auto json = Good();
  json["weather"] = "fair";
  EXPECT_EQ(Must(ParseIslandReport(json.dump())).version, Version(7));
}

TEST(IslandReport, IsRefusedNamingTheMemberAndItsValue) {
  const std::map<std::string, nlohmann::json> wrong = {
      {"format", "1"},
      {"version", 1'000'000'000},
      {"head", -1},
      {"ready", "yes"},
      {"draining", 1},
      {"running", 1.5},
      {"capacity", 1e300},
      {"run", "../etc"},
      {"name", "a\nb"},
      {"region", std::string(129, 'x')},
      {"url", "http://evil:80\r\nX-Header: 1"},
      {"instance", nlohmann::json::array()},
  };
  for (const auto& [name, value] : wrong) {
    auto json = Good();
    json[name] = value;
    const auto refused = ParseIslandReport(json.dump());
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalid) << name;
    EXPECT_THAT(refused.error().message, HasSubstr(name));
    EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
  }
  for (const char* text : {"", "[]", "{", "null", "{\"format\":1}"}) EXPECT_FALSE(ParseIslandReport(text)) << text;
  auto json = Good();
  json["format"] = 2;
  EXPECT_EQ(ParseIslandReport(json.dump()).error().code, Code::kUnsupported);
  json["format"] = 1;
  json["because"] = std::string(kMostReportBytes, 'x');
  EXPECT_FALSE(ParseIslandReport(json.dump()));
  json = Good();
  json.erase("url");
  EXPECT_FALSE(ParseIslandReport(json.dump()));
}

RC_GTEST_PROP(IslandReport, OfAnyBytesIsReadOrRefused, (std::string text)) {
  (void)ParseIslandReport(text);
  std::string good = Good().dump();
  const size_t at = *rc::gen::inRange<size_t>(0, good.size());
  good[at] = *rc::gen::arbitrary<char>();
  if (const auto report = ParseIslandReport(good)) {
    RC_ASSERT(ParseIslandReport(ToJson(*report)).has_value());
  }
}

TEST(CanonicalUrl, HasOneSpelling) {
  EXPECT_EQ(Must(CanonicalUrl("http://a.example/")), "http://a.example:80");
  EXPECT_EQ(Must(CanonicalUrl("http://user:word@a:81")), "http://a:81");
  EXPECT_EQ(Must(CanonicalUrl("http://[::1]:81/")), "http://[::1]:81");
  for (const char* url :
       {"https://a", "a:80", "http://a b", "http://", "http://a:0", "http://a/path", "http://a\r\nb"}) {
    EXPECT_FALSE(CanonicalUrl(url)) << url;
  }
}

}  // namespace
}  // namespace skerry
