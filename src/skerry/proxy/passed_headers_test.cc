#include "skerry/proxy/passed_headers.h"

#include <gtest/gtest.h>

namespace skerry {
namespace {

std::string Passed(const HttpHeaders& headers) {
  std::string out;
  AppendPassedHeaders(headers, /*ours=*/false, out);
  return out;
}

TEST(PassedHeaders, AreThoseOfBothEndsInTheirOrder) {
  EXPECT_EQ(Passed({{"b", "1"}, {"A", ""}, {"b", "2"}, {"traceparent", "00-x"}}),
            "b: 1\r\nA: \r\nb: 2\r\ntraceparent: 00-x\r\n");
}

TEST(PassedHeaders, AreNotThoseOfOneConnection) {
  EXPECT_EQ(Passed({{"connection", "keep-alive, x-hop"},
                    {"X-Hop", "1"},
                    {"Keep-Alive", "1"},
                    {"TE", "trailers"},
                    {"Trailer", "x"},
                    {"transfer-encoding", "chunked"},
                    {"content-length", "1"},
                    {"Upgrade", "h2c"},
                    {"Proxy-Authorization", "x"},
                    {"Expect", "100-continue"},
                    {"X-End", "1"}}),
            "X-End: 1\r\n");
  EXPECT_EQ(Passed({{"Connection", "a ,\t b"}, {"connection", "c"}, {"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}}),
            "d: 1\r\n");
}

TEST(PassedHeaders, AreNotSkerrys) {
  EXPECT_EQ(Passed({{"Skerry-Min-Version", "1"}, {"skerry-run", "r"}, {"Skerry", "1"}}), "Skerry: 1\r\n");
}

TEST(PassedHeaders, StayWhereTheOtherEndNeedsThem) {
  EXPECT_EQ(Passed({{"Connection", "host, content-type"}, {"Host", "h"}, {"Content-Type", "t"}}),
            "Host: h\r\nContent-Type: t\r\n");
}

}  // namespace
}  // namespace skerry
