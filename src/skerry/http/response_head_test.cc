#include "skerry/http/response_head.h"

#include "tests/testing/results.h"

namespace skerry {
namespace {

constexpr std::chrono::system_clock::time_point kTime{std::chrono::seconds(784111777)};

std::string HeadOf(const ServerResponse& response, ResponseFraming framing = {}) {
  return Must(ResponseHead(response, framing, kTime));
}

TEST(ResponseHead, DatesAreWrittenAsTheStandardDoes) { EXPECT_EQ(HttpDate(kTime), "Sun, 06 Nov 1994 08:49:37 GMT"); }

TEST(ResponseHead, SaysHowLongTheBodyIs) {
  ServerResponse response{.status = 409, .content_type = "a/b", .headers = {{"X-A", "1"}}, .body = "1234"};
  EXPECT_EQ(HeadOf(response),
            "HTTP/1.1 409 Conflict\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-A: 1\r\nContent-Type: a/b\r\n"
            "Content-Length: 4\r\n\r\n");
  response.body.clear();
  EXPECT_EQ(HeadOf(response, {.keep = false}),
            "HTTP/1.1 409 Conflict\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-A: 1\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n");
  response.status = 204;
  EXPECT_EQ(HeadOf(response), "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-A: 1\r\n\r\n");
}

TEST(ResponseHead, CannotBeBrokenOutOf) {
  const auto with = [](HttpHeaders::Field field) { return ResponseHead({.headers = {std::move(field)}}, {}, kTime); };
  EXPECT_THAT(with({"X-A", "fine: \xc3\xa4"}), Succeeds());
  EXPECT_THAT(with({"X-A", "1\r\nX-B: 2"}), Fails(Code::kInvalid));
  EXPECT_THAT(with({"X-A", "1\nX-B: 2"}), Fails(Code::kInvalid));
  EXPECT_THAT(with({"X-A:", "1"}), Fails(Code::kInvalid));
  EXPECT_THAT(with({"", "1"}), Fails(Code::kInvalid));
  EXPECT_THAT(with({"content-length", "1"}), Fails(Code::kInvalid));
  EXPECT_THAT(with({"Transfer-Encoding", "chunked"}), Fails(Code::kInvalid));
  EXPECT_THAT(ResponseHead({.content_type = "a\r\nb", .body = "x"}, {}, kTime), Fails(Code::kInvalid));
  for (const int status : {-1, 0, 100, 199, 600}) {
    EXPECT_THAT(ResponseHead({.status = status}, {}, kTime), Fails(Code::kInvalid));
  }
}

}  // namespace
}  // namespace skerry
