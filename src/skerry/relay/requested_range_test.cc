#include "skerry/relay/requested_range.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

namespace skerry {
namespace {

const auto kHasTag = [](std::string_view tag) { return tag == "\"mine\""; };

RequestedRange Asked(const HttpHeaders& headers, uint64_t size = 100) { return RangeAskedFor(headers, size, kHasTag); }

TEST(RequestedRange, IsWhatRfc9110Says) {
  const RequestedRange whole{200, 0, 100};
  EXPECT_EQ(Asked({}), whole);
  EXPECT_EQ(Asked({{"Range", "bytes=0-0"}}), (RequestedRange{206, 0, 1}));
  EXPECT_EQ(Asked({{"Range", "bytes=90-"}}), (RequestedRange{206, 90, 100}));
  EXPECT_EQ(Asked({{"Range", "bytes=-5"}}), (RequestedRange{206, 95, 100}));
  EXPECT_EQ(Asked({{"Range", "bytes=-500"}}), (RequestedRange{206, 0, 100}));
  EXPECT_EQ(Asked({{"Range", "bytes=5-18446744073709551615"}}), (RequestedRange{206, 5, 100}));
  for (const char* none : {"bytes=100-", "bytes=100-200", "bytes=-0", "bytes=18446744073709551615-"}) {
    EXPECT_EQ(Asked({{"Range", none}}).status, 416) << none;
  }
  for (const char* ignored : {"bytes=5-4", "bytes=", "bytes=-", "bytes=a-b", "bytes=1-2,4-5", "items=1-2", "bytes=1",
                              "bytes=-1-2", "bytes=18446744073709551616-", "bytes= ", "1-2"}) {
    EXPECT_EQ(Asked({{"Range", ignored}}), whole) << ignored;
  }
  EXPECT_EQ(Asked({{"Range", "bytes=0-0"}}, 0).status, 416);
  EXPECT_EQ(Asked({}, 0), (RequestedRange{200, 0, 0}));
}

TEST(RequestedRange, KeepsToConditions) {
  EXPECT_EQ(Asked({{"If-None-Match", "\"mine\""}}).status, 304);
  EXPECT_EQ(Asked({{"If-None-Match", "*"}}).status, 304);
  EXPECT_EQ(Asked({{"If-None-Match", "\"a\" , W/\"mine\""}}).status, 304);
  EXPECT_EQ(Asked({{"If-None-Match", "\"a\",\"b\""}}).status, 200);
  EXPECT_EQ(Asked({{"If-None-Match", "mine"}}).status, 200);
  EXPECT_EQ(Asked({{"If-None-Match", "\"mine"}}).status, 200);
  EXPECT_EQ(Asked({{"If-Match", "\"mine\""}}).status, 200);
  EXPECT_EQ(Asked({{"If-Match", "W/\"mine\""}}).status, 412);
  EXPECT_EQ(Asked({{"If-Match", "\"other\""}, {"If-None-Match", "\"mine\""}}).status, 412);
  EXPECT_EQ(Asked({{"Range", "bytes=0-0"}, {"If-Range", "\"mine\""}}).status, 206);
  EXPECT_EQ(Asked({{"Range", "bytes=0-0"}, {"If-Range", "W/\"mine\""}}).status, 200);
  EXPECT_EQ(Asked({{"Range", "bytes=0-0"}, {"If-Range", "Sun, 06 Nov 1994 08:49:37 GMT"}}).status, 200);
}

RC_GTEST_PROP(RequestedRange, LiesWithinTheObject, (const std::string& text, uint64_t a, uint64_t b, bool made)) {
  const uint64_t size = *rc::gen::inRange<uint64_t>(0, 1000);
  const std::string range = made ? fmt::format("bytes={}-{}", a % 1100, b % 1100) : "bytes=" + text;
  const RequestedRange asked = RangeAskedFor({{"Range", range}}, size, kHasTag);
  RC_ASSERT(asked.status == 200 || asked.status == 206 || asked.status == 416);
  RC_ASSERT(asked.begin <= asked.end && asked.end <= size);
  if (asked.status == 206) RC_ASSERT(asked.begin < asked.end);
  if (asked.status == 200) RC_ASSERT(asked.begin == 0 && asked.end == size);
}

}  // namespace
}  // namespace skerry
