#include "skerry/board/store_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Environment Variables(std::map<std::string, std::string> variables) {
  variables.emplace("HOME", "/nonexistent");
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}
S3Place Parse(std::string_view url, std::map<std::string, std::string> variables = {}) {
  return Must(ParseS3Url(url, Variables(std::move(variables))));
}

TEST(S3Url, NamesABucketAndAPrefix) {
  const S3Place place = Parse("s3://my-bucket/boards/a%20b/");
  EXPECT_EQ(place.options.bucket, "my-bucket");
  EXPECT_EQ(place.prefix, "boards/a b/");
  EXPECT_EQ(place.options.endpoint, "https://s3.us-east-1.amazonaws.com");
  EXPECT_FALSE(place.options.path_style);
  EXPECT_FALSE(place.options.credentials.anonymous);
  EXPECT_EQ(Parse("s3://my-bucket").prefix, "");
}

TEST(S3Url, TakesEverySetting) {
  const S3Place place = Parse(
      "s3://b.c/p?endpoint=http://127.0.0.1:8333/&region=auto&style=virtual&profile=me&anonymous=true&ca=%2Fca.pem"
      "&conditions=google");
  EXPECT_EQ(place.options.endpoint, "http://127.0.0.1:8333");
  EXPECT_EQ(place.options.region, "auto");
  EXPECT_FALSE(place.options.path_style);
  EXPECT_EQ(place.options.credentials.profile, "me");
  EXPECT_TRUE(place.options.credentials.anonymous);
  EXPECT_TRUE(place.options.credentials.custom_endpoint);
  EXPECT_EQ(place.options.http.ca_file, "/ca.pem");
  EXPECT_EQ(place.options.conditions, ConditionDialect::kGoogle);
}

TEST(S3Url, ChoosesThePathStyleWhereHostNamesWouldNotDo) {
  EXPECT_TRUE(Parse("s3://bucket/?endpoint=http://h:1").options.path_style);
  EXPECT_TRUE(Parse("s3://bucket.with.dots").options.path_style);
  EXPECT_TRUE(Parse("s3://bucket?style=path").options.path_style);
  EXPECT_TRUE(Parse("s3://bucket?conditions=google").options.path_style);
  EXPECT_EQ(Parse("s3://bucket?conditions=google").options.endpoint, "https://storage.googleapis.com");
}

TEST(S3Url, HonoursTheEnvironmentBehindItsOwnSettings) {
  const std::map<std::string, std::string> all = {{"AWS_ENDPOINT_URL", "http://e1:1"},
                                                  {"AWS_ENDPOINT_URL_S3", "http://e2:2/"},
                                                  {"AWS_REGION", "eu-west-1"},
                                                  {"AWS_DEFAULT_REGION", "eu-west-2"},
                                                  {"AWS_CA_BUNDLE", "/bundle.pem"}};
  EXPECT_EQ(Parse("s3://bucket", all).options.endpoint, "http://e2:2");
  EXPECT_EQ(Parse("s3://bucket", all).options.region, "eu-west-1");
  EXPECT_EQ(Parse("s3://bucket", all).options.http.ca_file, "/bundle.pem");
  EXPECT_EQ(Parse("s3://bucket?endpoint=http://mine&region=r&ca=c", all).options.endpoint, "http://mine");
  EXPECT_EQ(Parse("s3://bucket?endpoint=http://mine&region=r&ca=c", all).options.region, "r");
  EXPECT_EQ(Parse("s3://bucket?endpoint=http://mine&region=r&ca=c", all).options.http.ca_file, "c");
  EXPECT_EQ(Parse("s3://bucket", {{"AWS_ENDPOINT_URL", "http://e1:1"}}).options.endpoint, "http://e1:1");
  EXPECT_EQ(Parse("s3://bucket", {{"AWS_DEFAULT_REGION", "eu-west-2"}}).options.region, "eu-west-2");
  EXPECT_EQ(Parse("s3://bucket?region=cn-north-1").options.endpoint, "https://s3.cn-north-1.amazonaws.com.cn");
}

TEST(S3Url, RefusesWhatItDoesNotKnow) {
  const auto parse = [](std::string_view url) { return ParseS3Url(url, Variables({})); };
  EXPECT_THAT(parse("s3://b?regoin=x"),
              Fails(Code::kInvalid, AllOf(HasSubstr("unknown setting \"regoin\""),
                                          HasSubstr("endpoint, region, style, profile, anonymous, ca, conditions"))));
  EXPECT_THAT(parse("s3://key:hunter2@b/p"),
              Fails(Code::kInvalid, AllOf(HasSubstr("no names or passwords"), Not(HasSubstr("hunter2")))));
  for (const std::string_view bad :
       {"s3://b?style=round", "s3://b?anonymous=yes", "s3://b?conditions=azure", "s3://b?region=", "s3://b?region",
        "s3://b?region=a&region=b", "s3://b/p#f", "s3://b/%zz", "s3://b?ca=%"}) {
    EXPECT_THAT(parse(bad), Fails(Code::kInvalid)) << bad;
  }
}

TEST(HttpUrl, NamesAServerAndMayNameItsAuthority) {
  EXPECT_EQ(Must(ParseHttpUrl("https://relay.example/boards/a", Variables({}))).url, "https://relay.example/boards/a");
  EXPECT_EQ(Must(ParseHttpUrl("https://h/?ca=/c.pem", Variables({}))).http.ca_file, "/c.pem");
  const Path token = Path(testing::TempDir()) / "store_url_token";
  Must(WriteFileAtomically(token, AsBytes("hunter2\n")));
  EXPECT_EQ(Must(ParseHttpUrl(fmt::format("http://h/?token_file={}", token.string()), Variables({}))).token, "hunter2");
  EXPECT_THAT(ParseHttpUrl("http://h/?token_file=/none", Variables({})), Fails(Code::kNotFound, HasSubstr("/none")));
  EXPECT_THAT(ParseHttpUrl("https://h/?token=hunter2", Variables({})),
              Fails(Code::kInvalid, Not(HasSubstr("hunter2"))));
  EXPECT_THAT(ParseHttpUrl("https://me:hunter2@h/", Variables({})), Fails(Code::kInvalid, Not(HasSubstr("hunter2"))));
}

TEST(OpenStore, KnowsEveryKindOfBoard) {
  EXPECT_THAT(OpenStore("", false), Fails(Code::kInvalid));
  EXPECT_THAT(OpenStore("file://relative", false), Fails(Code::kInvalid));
  EXPECT_THAT(OpenStore("ftp://host/x", false), Fails(Code::kUnsupported, HasSubstr("ftp://")));
  EXPECT_THAT(OpenStore("s3:///prefix", false), Fails(Code::kInvalid, HasSubstr("bucket")));
  EXPECT_THAT(OpenStore("s3://bucket/../x?endpoint=http://127.0.0.1:1", false), Fails(Code::kInvalid));
  EXPECT_THAT(OpenStore("http:///x", false), Fails(Code::kInvalid));
  EXPECT_EQ(Must(OpenStore("s3://bucket/a/b/?endpoint=http://127.0.0.1:1", false))->Describe(),
            "a/b/ in bucket bucket at http://127.0.0.1:1");
  EXPECT_EQ(Must(OpenStore("http://127.0.0.1:1/a/", false))->Describe(), "http://127.0.0.1:1/a");
}

}  // namespace
}  // namespace skerry
