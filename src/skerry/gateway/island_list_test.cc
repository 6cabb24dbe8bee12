#include "skerry/gateway/island_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(IslandSources, AreAddressesNamesAndFiles) {
  const auto sources = Must(ParseIslandSources({"http://a:1,http://b:2/", "dns://islands.svc:8089", "/etc/islands"}));
  ASSERT_EQ(sources.size(), 4u);
  EXPECT_EQ(sources[1].text, "http://b:2");
  EXPECT_EQ(sources[2].kind, IslandSource::Kind::kName);
  EXPECT_EQ(std::pair(sources[2].text, sources[2].port), std::pair(std::string("islands.svc"), uint16_t{8089}));
  EXPECT_EQ(sources[3].kind, IslandSource::Kind::kFile);
  for (const char* text : {"", "http://a:1,", "https://a:1", "ftp://a", "http://a/path"}) {
    EXPECT_FALSE(ParseIslandSources({text})) << text;
  }
}

TEST(IslandFile, HasALineForEachAndNamesAWrongOne) {
  EXPECT_THAT(Must(ParseIslandFile("# ours\nhttp://a:1\r\n\n  http://b:2  # the other\n")),
              ElementsAre("http://a:1", "http://b:2"));
  const auto wrong = ParseIslandFile("http://a:1\nb:2\n");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("line 2"));
}

}  // namespace
}  // namespace skerry
