#include "skerry/http/request_target.h"

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(RequestTarget, IsAPathAndAQuery) {
  const RequestTarget target = Must(ParseRequestTarget("/v1/a%20b%2fc+d?x=1&y=a+b%2B&empty=&flag&&x=2&%3D=%26"));
  EXPECT_EQ(target.raw, "/v1/a%20b%2fc+d?x=1&y=a+b%2B&empty=&flag&&x=2&%3D=%26");
  EXPECT_EQ(target.path, "/v1/a b/c+d");
  EXPECT_THAT(target.query, ElementsAre(Pair("x", "1"), Pair("y", "a b+"), Pair("empty", ""), Pair("flag", ""),
                                        Pair("x", "2"), Pair("=", "&")));
  EXPECT_EQ(target.Query("x"), "1");
  EXPECT_EQ(target.Query("flag"), "");
  EXPECT_EQ(target.Query("X"), std::nullopt);
}

TEST(RequestTarget, MayHaveNoQuery) {
  EXPECT_THAT(Must(ParseRequestTarget("/")).query, IsEmpty());
  EXPECT_THAT(Must(ParseRequestTarget("/?")).query, IsEmpty());
  EXPECT_EQ(Must(ParseRequestTarget("/?")).path, "/");
  EXPECT_EQ(Must(ParseRequestTarget("/a?b?c=d?")).Query("b?c"), "d?");
}

TEST(RequestTarget, LosesItsOrigin) {
  EXPECT_EQ(Must(ParseRequestTarget("http://agent:8090/metrics?x=1")).path, "/metrics");
  EXPECT_EQ(Must(ParseRequestTarget("http://agent:8090/metrics?x=1")).Query("x"), "1");
  EXPECT_EQ(Must(ParseRequestTarget("http://agent")).path, "/");
  EXPECT_EQ(Must(ParseRequestTarget("http://agent?x=/")).path, "/");
  EXPECT_EQ(Must(ParseRequestTarget("*")).path, "*");
}

TEST(RequestTarget, IsRefusedWhereItIsMalformed) {
  for (const char* raw : {"", "metrics", "agent:80", "*x", "?x=1", "ftp://agent/x"}) {
    EXPECT_THAT(ParseRequestTarget(raw), Fails(Code::kInvalid, HasSubstr("neither"))) << raw;
  }
  for (const char* raw : {"/%", "/%4", "/%zz", "/%4g", "/%-1", "/%00", "/?%", "/?a=%0", "/?a=%+1"}) {
    EXPECT_THAT(ParseRequestTarget(raw), Fails(Code::kInvalid, HasSubstr("no escape"))) << raw;
  }
}

}  // namespace
}  // namespace skerry
