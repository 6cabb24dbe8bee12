#include "skerry/s3/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skerry/base/hash.h"
#include "tests/testing/http_server.h"
#include "tests/testing/results.h"
#include "tests/testing/retrying.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class S3ClientTest : public testing::Test {
 protected:
  static S3Options OptionsFor(const HttpServer& server) {
    S3Options options;
    options.bucket = "bucket";
    options.endpoint = server.url();
    options.path_style = true;
    options.waiting = NoWaiting();
    options.credentials.environment = [](std::string_view name) -> std::optional<std::string> {
      if (name == "AWS_ACCESS_KEY_ID") return "AKIDEXAMPLE";
      if (name == "AWS_SECRET_ACCESS_KEY") return "topsecret";
      if (name == "AWS_SESSION_TOKEN") return "sessiontoken";
      return std::nullopt;
    };
    return options;
  }
};

TEST_F(S3ClientTest, SignsWhatItSends) {
  HttpServer server({Answer(200, "x", {{"ETag", "\"e\""}})});
  EXPECT_EQ(Must(Must(S3Client::Make(OptionsFor(server)))->Get("a b/ä+%", 10)).token, "\"e\"");
  const ReceivedRequest request = server.requests().at(0);
  EXPECT_EQ(request.target, "/bucket/a%20b/%C3%A4%2B%25");
  EXPECT_EQ(request.Header("x-amz-security-token"), "sessiontoken");
  EXPECT_EQ(request.Header("x-amz-content-sha256"), Sha256::Of("").Hex());
  EXPECT_THAT(request.Header("Authorization"),
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token"));
  EXPECT_EQ(request.Header("Host"), server.url().substr(7));
}

TEST_F(S3ClientTest, SendsTheDigestOfThePayload) {
  HttpServer server({Answer(200, "", {{"ETag", "\"e\""}})});
  const auto client = Must(S3Client::Make(OptionsFor(server)));
  Must(client->Put("k", Payload::Of(AsBytes("payload")), {}, true));
  EXPECT_EQ(server.requests().at(0).Header("x-amz-content-sha256"), Sha256::Of("payload").Hex());
}

TEST_F(S3ClientTest, ShowsNoSecretInItsErrors) {
  HttpServer server([](const ReceivedRequest&) { return Answer(403); });
  const Result<S3Object> denied = Must(S3Client::Make(OptionsFor(server)))->Get("k", 10);
  EXPECT_THAT(denied, Fails(Code::kInvalid,
                            AllOf(HasSubstr("AKID…"), Not(HasSubstr("topsecret")), Not(HasSubstr("sessiontoken")))));
}

TEST_F(S3ClientTest, AsksAgainByGetWhyAHeadWasRefused) {
  HttpServer server([](const ReceivedRequest& request) {
    if (request.method == "HEAD") return Answer(403, "", {{"Content-Length", "0"}});
    return Answer(403, "<Error><Code>RequestTimeTooSkewed</Code></Error>");
  });
  EXPECT_THAT(Must(S3Client::Make(OptionsFor(server)))->Head("k"), Fails(Code::kInvalid, HasSubstr("set the clock")));
}

TEST_F(S3ClientTest, RefusesNamesThatCannotBe) {
  HttpServer server(std::vector<WireAnswer>{});
  const auto make = [&](auto change) {
    S3Options options = OptionsFor(server);
    change(options);
    return S3Client::Make(std::move(options));
  };
  for (const std::string bad : {"", "ab", "a/b/c", "a..b", "bu cket", "b@cket"}) {
    EXPECT_THAT(make([&](S3Options& options) { options.bucket = bad; }), Fails(Code::kInvalid)) << bad;
  }
  for (const std::string bad :
       {"", "127.0.0.1:1", "ftp://h", "http://", "http://h/path", "http://u:p@h", "http://h?x"}) {
    EXPECT_THAT(make([&](S3Options& options) { options.endpoint = bad; }), Fails(Code::kInvalid)) << bad;
  }
  EXPECT_THAT(make([](S3Options& options) { options.region = "a b"; }), Fails(Code::kInvalid));
}

}  // namespace
}  // namespace skerry
