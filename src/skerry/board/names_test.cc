#include "skerry/board/names.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace skerry {
namespace {

TEST(Version, IsOrderedAndPrints) {
  EXPECT_LT(Version(6), Version(7));
  EXPECT_EQ(Version(6).Next(), Version(7));
  EXPECT_EQ(Version(7).Previous(), Version(6));
  EXPECT_TRUE(Version().IsBase());
  EXPECT_FALSE(Version(1).IsBase());
  EXPECT_EQ(fmt::format("{} {:09}", Version(7), Version(64)), "7 000000064");
  std::ostringstream out;
  out << Version(12);
  EXPECT_EQ(out.str(), "12");
}

TEST(Version, ParsesWholeNumbersOnly) {
  EXPECT_EQ(Version::Parse("0").value(), Version(0));
  EXPECT_EQ(Version::Parse("000000007").value(), Version(7));
  EXPECT_EQ(Version::Parse("999999999").value(), Version(Version::kMax));
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "1000000000", "99999999999999999999999"}) {
    EXPECT_FALSE(Version::Parse(text).has_value()) << text;
  }
}

TEST(RunId, TakesPlainNames) {
  for (const char* text : {"a", "grpo-1", "A_b.c", "9", "-x"}) EXPECT_EQ(RunId::Parse(text).value().str(), text);
  EXPECT_TRUE(RunId::Parse(std::string(64, 'r')).has_value());
}

TEST(RunId, RefusesNamesThatCouldBePathsOrHidden) {
  for (const char* text :
       {"", ".", "..", ".hidden", "a/", "/b", "a/b/c", "a/.b", "a/..", "a//b", "a b", "ä", "a\\b", "a\n", "a%2Fb"}) {
    EXPECT_FALSE(RunId::Parse(text).has_value()) << text;
  }
  EXPECT_FALSE(RunId::Parse(std::string(65, 'r')).has_value());
  EXPECT_FALSE(RunId::Parse(std::string_view("a\0b", 3)).has_value());
}

TEST(RunId, MayNameAViewOfARun) {
  const RunId run = RunId::Parse("grpo-1").value();
  const RunId view = RunId::Parse("grpo-1/fp8-block").value();
  EXPECT_FALSE(run.IsView());
  EXPECT_EQ(run.view(), "");
  EXPECT_EQ(run.Whole(), run);
  EXPECT_TRUE(view.IsView());
  EXPECT_EQ(view.view(), "fp8-block");
  EXPECT_EQ(view.Whole(), run);
  EXPECT_EQ(run.View("fp8-block").value(), view);
  EXPECT_EQ(view.View("nf4").value().str(), "grpo-1/nf4");
  EXPECT_EQ(view.View("").value(), run);
  for (const char* name : {"a/b", ".a", "..", "a b"}) EXPECT_FALSE(run.View(name).has_value()) << name;
  EXPECT_TRUE(RunId::Parse(fmt::format("{0:r<64}/{0:v<64}", "")).has_value());
  EXPECT_FALSE(RunId::Parse(fmt::format("r/{:v<65}", "")).has_value());
}

TEST(RandomToken, IsThirtyTwoFreshHexadecimalDigits) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string token = RandomToken();
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_EQ(token.size(), 32u);
    seen.insert(token);
  }
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace skerry
