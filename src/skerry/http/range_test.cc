#include "skerry/http/range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skerry/http/retrying.h"
#include "tests/testing/http_server.h"
#include "tests/testing/results.h"
#include "tests/testing/retrying.h"

namespace skerry {
namespace {

using testing::HasSubstr;

// Reads 3 bytes at 5 from a server that answers so.
Result<std::string> ReadFrom(WireAnswer answer) {
  HttpServer server({std::move(answer)});
  HttpRequest request;
  request.url = server.url() + "/";
  Bytes out(3);
  RangeReader reader(5, out);
  reader.Prepare(request);
  SKERRY_ASSIGN(const HttpResponse response, HttpClient().Send(request));
  EXPECT_EQ(server.requests().at(0).Header("Range"), "bytes=5-7");
  SKERRY_TRY(reader.Finish(response));
  return ToString(out);
}

TEST(RangeReader, TakesEveryWayOfAnsweringARange) {
  EXPECT_EQ(Must(ReadFrom(Answer(206, "567", {{"Content-Range", "bytes 5-7/10"}}))), "567");
  EXPECT_EQ(Must(ReadFrom(Answer(206, "567", {{"Content-Range", "bytes 5-7/*"}}))), "567");
  EXPECT_EQ(Must(ReadFrom(Answer(200, "567", {{"Content-Range", "bytes 5-7/10"}}))), "567");
  EXPECT_EQ(Must(ReadFrom(Answer(200, "0123456789"))), "567");
  EXPECT_EQ(Must(ReadFrom(Answer(200, "01234567"))), "567");
  EXPECT_EQ(Must(ReadFrom(
                {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n01234567..", .then = WireAnswer::Then::kHang})),
            "567")
      << "the rest of a whole object is not waited for";
}

TEST(RangeReader, CallsARangeBeyondTheEndCorrupt) {
  EXPECT_THAT(ReadFrom(Answer(206, "56", {{"Content-Range", "bytes 5-6/7"}})),
              Fails(Code::kCorrupt, HasSubstr("has 7 bytes")));
  EXPECT_THAT(ReadFrom(Answer(416, "", {{"Content-Range", "bytes */4"}})),
              Fails(Code::kCorrupt, HasSubstr("has 4 bytes")));
  EXPECT_THAT(ReadFrom(Answer(416, "<Error/>")), Fails(Code::kCorrupt, HasSubstr("has fewer bytes")));
  EXPECT_THAT(ReadFrom(Answer(200, "012345")), Fails(Code::kCorrupt, HasSubstr("has 6 bytes")));
  EXPECT_THAT(ReadFrom(Answer(200, "0")), Fails(Code::kCorrupt, HasSubstr("has 1 bytes")));
  EXPECT_THAT(ReadFrom(Answer(200, "")), Fails(Code::kCorrupt, HasSubstr("has 0 bytes")));
}

TEST(RangeReader, RefusesAnswersToAnotherQuestion) {
  for (const std::string range : {"bytes 0-2/10", "bytes 5-8/10", "bytes 5-4/10", "lines 5-7/10", "bytes 5-7",
                                  "bytes x-7/10", "bytes 5-99999999999999999999/10", ""}) {
    EXPECT_THAT(ReadFrom(Answer(206, "567", {{"Content-Range", range}})), Fails(Code::kUnavailable)) << range;
  }
  EXPECT_THAT(ReadFrom(Answer(206, "567")), Fails(Code::kUnavailable));
  EXPECT_THAT(ReadFrom(Answer(206, "56", {{"Content-Range", "bytes 5-7/10"}})),
              Fails(Code::kUnavailable, HasSubstr("ended after 2 of its 3")));
}

// What is read of "0123456789" from 2 to 8 from a server that gives these answers, and the ranges that it was asked
// for.
std::string ReadWithRetries(std::vector<WireAnswer> answers, std::string& ranges) {
  HttpServer server(std::move(answers));
  HttpClient client;
  Bytes out(7);
  RangeReader reader(2, out);
  RetryBudget budget;
  Backoff backoff({}, budget, NoWaiting());
  const Result<HttpResponse> response = SendWithRetries(backoff, [&] {
    HttpRequest request;
    request.url = server.url() + "/";
    reader.Prepare(request);
    return client.Send(request);
  });
  for (const auto& request : server.requests()) ranges += request.Header("Range") + " ";
  Must(reader.Finish(Must(response)));
  return ToString(out);
}
// The answer to a range whose body ends after `sent` bytes.
WireAnswer Cut(std::string_view content_range, size_t size, std::string_view etag, std::string_view sent) {
  return {.bytes = fmt::format("HTTP/1.1 206 OK\r\nContent-Range: {}\r\nETag: {}\r\nContent-Length: {}\r\n\r\n{}",
                               content_range, etag, size, sent),
          .then = WireAnswer::Then::kClose};
}

TEST(RangeReader, GoesOnWhereABodyWasCut) {
  std::string ranges;
  EXPECT_EQ(ReadWithRetries({Cut("bytes 2-8/10", 7, "\"a\"", "234"), Cut("bytes 5-8/10", 4, "\"a\"", "56"),
                             Answer(206, "78", {{"Content-Range", "bytes 7-8/10"}, {"ETag", "\"a\""}})},
                            ranges),
            "2345678");
  EXPECT_EQ(ranges, "bytes=2-8 bytes=5-8 bytes=7-8 ");
}

TEST(RangeReader, NeverMixesTwoObjects) {
  std::string ranges;
  EXPECT_EQ(ReadWithRetries({Cut("bytes 2-8/10", 7, "\"a\"", "XXX"),
                             Answer(206, "5678", {{"Content-Range", "bytes 5-8/10"}, {"ETag", "\"b\""}}),
                             Answer(206, "2345678", {{"Content-Range", "bytes 2-8/10"}, {"ETag", "\"b\""}})},
                            ranges),
            "2345678");
  EXPECT_EQ(ranges, "bytes=2-8 bytes=5-8 bytes=2-8 ");
  ranges.clear();
  EXPECT_EQ(ReadWithRetries({Cut("bytes 2-8/10", 7, "W/\"a\"", "XXX"),
                             Answer(206, "2345678", {{"Content-Range", "bytes 2-8/10"}, {"ETag", "W/\"a\""}})},
                            ranges),
            "2345678");
  EXPECT_EQ(ranges, "bytes=2-8 bytes=2-8 ") << "a weak ETag says nothing about bytes";
}

TEST(RangeReader, StartsAnewForAnotherAttempt) {
  HttpServer server({{.bytes = "HTTP/1.1 206 OK\r\nContent-Range: bytes 5-7/10\r\nContent-Length: 3\r\n\r\nXX",
                      .then = WireAnswer::Then::kClose},
                     Answer(206, "567", {{"Content-Range", "bytes 5-7/10"}})});
  HttpClient client;
  Bytes out(3);
  RangeReader reader(5, out);
  RetryBudget budget;
  Backoff backoff({}, budget, NoWaiting());
  const HttpResponse response = Must(SendWithRetries(backoff, [&] {
    HttpRequest request;
    request.url = server.url() + "/";
    reader.Prepare(request);
    return client.Send(request);
  }));
  Must(reader.Finish(response));
  EXPECT_EQ(AsText(out), "567");
}

HttpResponse WithStatus(int status, HttpHeaders headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = {}};
}

TEST(Retrying, TellsPassingFailuresFromLastingOnes) {
  for (const int status : {429, 500, 502, 503, 504}) EXPECT_TRUE(IsTransient(WithStatus(status))) << status;
  for (const int status : {200, 206, 301, 400, 401, 403, 404, 409, 412, 416, 501}) {
    EXPECT_FALSE(IsTransient(WithStatus(status))) << status;
  }
  EXPECT_EQ(AskedPause(WithStatus(503, {{"retry-after", "7"}})), std::chrono::seconds(7));
  EXPECT_EQ(AskedPause(WithStatus(503)), std::nullopt);
  EXPECT_EQ(AskedPause(WithStatus(503, {{"Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}})), std::nullopt);
  EXPECT_EQ(AskedPause(WithStatus(503, {{"Retry-After", "-1"}})), std::nullopt);
}

TEST(Retrying, GivesTheLastOutcomeWhenTheAttemptsAreUsedUp) {
  int attempts = 0;
  RetryBudget budget;
  Backoff backoff({.max_attempts = 3}, budget, NoWaiting());
  const auto outcome = SendWithRetries(backoff, [&]() -> Result<HttpResponse> {
    ++attempts;
    return WithStatus(503);
  });
  EXPECT_EQ(Must(outcome).status, 503);
  EXPECT_EQ(attempts, 3);
}

TEST(Retrying, DoesNotRepeatWhatWouldFailAgain) {
  int attempts = 0;
  RetryBudget budget;
  Backoff backoff({}, budget, NoWaiting());
  EXPECT_THAT(SendWithRetries(backoff,
                              [&]() -> Result<HttpResponse> {
                                ++attempts;
                                return Fail(Code::kInvalid, "no certificate");
                              }),
              Fails(Code::kInvalid));
  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace skerry
