#include "skerry/s3/error_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

HttpResponse Said(int status, std::string_view body, HttpHeaders headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = ToBytes(AsBytes(body))};
}
HttpResponse SaidCode(int status, std::string_view code, std::string_view more = "") {
  return Said(status, fmt::format("<Error><Code>{}</Code><Message>The message.</Message>{}</Error>", code, more));
}

Error Explain(const HttpResponse& response) {
  return ExplainS3Error(response, {.method = "PUT",
                                   .url = "https://s3.example/b/k",
                                   .bucket = "b",
                                   .region = "us-east-1",
                                   .credentials = "AKIA… from environment variables",
                                   .now = std::chrono::system_clock::from_time_t(1440938160)});
}

struct Case {
  HttpResponse response;
  Code code;
  std::string advice;
};

TEST(S3Error, SaysWhatIsWrongAndWhatToDo) {
  const std::vector<Case> cases = {
      {SaidCode(403, "RequestTimeTooSkewed", "<ServerTime>2015-08-30T14:00:00Z</ServerTime>"), Code::kInvalid,
       "clock says 2015-08-30T12:36:00.000Z, the server's 2015-08-30T14:00:00Z: set the clock"},
      {SaidCode(403, "InvalidAccessKeyId"), Code::kInvalid, "does not know the access key (AKIA… from environment"},
      {SaidCode(403, "SignatureDoesNotMatch"), Code::kInvalid, "secret key does not belong"},
      {SaidCode(400, "ExpiredToken"), Code::kInvalid, "get new temporary keys"},
      {SaidCode(403, "AccessDenied"), Code::kInvalid, "PUT is not allowed there"},
      {Said(403, ""), Code::kInvalid, "PUT is not allowed there"},
      {SaidCode(404, "NoSuchBucket"), Code::kInvalid, "there is no bucket b"},
      {SaidCode(400, "AuthorizationHeaderMalformed", "<Region>eu-central-1</Region>"), Code::kInvalid,
       "in region eu-central-1, not us-east-1: say region=eu-central-1"},
      {Said(301, "", {{"x-amz-bucket-region", "eu-west-1"}}), Code::kInvalid, "say region=eu-west-1"},
      {Said(400, "", {{"x-amz-bucket-region", "eu-west-1"}}), Code::kInvalid, "say region=eu-west-1"},
      {Said(302, "", {{"Location", "https://else/x?hunter2"}}), Code::kInvalid, "redirects are not followed"},
      {SaidCode(404, "NoSuchKey"), Code::kNotFound, "404 NoSuchKey"},
      {SaidCode(412, "PreconditionFailed"), Code::kConflict, "412"},
      {SaidCode(501, "NotImplemented"), Code::kUnsupported, "does not do this"},
      {SaidCode(503, "SlowDown"), Code::kUnavailable, "503 SlowDown: The message."},
      {SaidCode(507, "Full"), Code::kNoSpace, "507"},
      {SaidCode(403, "QuotaExceeded"), Code::kNoSpace, "QuotaExceeded"},
  };
  for (const Case& c : cases) {
    const Error error = Explain(c.response);
    EXPECT_EQ(CodeName(error.code), CodeName(c.code)) << error.message;
    EXPECT_THAT(error.message, AllOf(HasSubstr("PUT https://s3.example/b/k answered"), HasSubstr(c.advice)));
    EXPECT_THAT(error.message, Not(HasSubstr("hunter2")));
  }
}

TEST(S3Error, ShowsAPageThatIsNoXmlShortAndPrintable) {
  const Error error = Explain(Said(502, "\x1b[31m<html>" + std::string(100'000, 'x')));
  EXPECT_EQ(CodeName(error.code), "unavailable");
  EXPECT_THAT(error.message, AllOf(HasSubstr("\\x1b[31m<html>"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(error.message.size(), 500u);
  EXPECT_LT(Explain(SaidCode(400, std::string(50'000, 'c'))).message.size(), 1000u);
}

}  // namespace
}  // namespace skerry
