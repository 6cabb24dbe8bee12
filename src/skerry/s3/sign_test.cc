#include "skerry/s3/sign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kEmptySha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string SignatureOf(const std::string& authorization) {
  return authorization.substr(authorization.find("Signature=") + 10);
}

// The examples of "Authorization Header: Transferring Payload in a Single Chunk" in the Amazon S3 API Reference.
class AmazonExample : public testing::Test {
 protected:
  std::string Sign(RequestToSign request) {
    request.headers.Add("Host", "examplebucket.s3.amazonaws.com");
    request.headers.Add("x-amz-content-sha256", request.payload_sha256);
    request.headers.Add("x-amz-date", "20130524T000000Z");
    return SignatureOf(Authorization(request, credentials_, {.region = "us-east-1"}, "20130524T000000Z"));
  }
  const Credentials credentials_{.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                 .secret_access_key = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")};
};

TEST_F(AmazonExample, GetsARangeOfAnObject) {
  EXPECT_EQ(Sign({.method = "GET",
                  .encoded_path = "/test.txt",
                  .query = {},
                  .headers = {{"Range", "bytes=0-9"}},
                  .payload_sha256 = kEmptySha256}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_F(AmazonExample, PutsAnObject) {
  const std::string path = "/" + UriEncode("test$file.text", true);
  EXPECT_EQ(path, "/test%24file.text");
  EXPECT_EQ(Sign({.method = "PUT",
                  .encoded_path = path,
                  .query = {},
                  .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                  .payload_sha256 = Sha256::Of("Welcome to Amazon S3.").Hex()}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST_F(AmazonExample, GetsALifecycle) {
  EXPECT_EQ(Sign({.method = "GET",
                  .encoded_path = "/",
                  .query = {{"lifecycle", ""}},
                  .headers = {},
                  .payload_sha256 = kEmptySha256}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST_F(AmazonExample, ListsObjects) {
  EXPECT_EQ(Sign({.method = "GET",
                  .encoded_path = "/",
                  .query = {{"prefix", "J"}, {"max-keys", "2"}},
                  .headers = {},
                  .payload_sha256 = kEmptySha256}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// Cases of Amazon's signing test suite (awslabs/aws-c-auth, tests/aws-signing-test-suite/v4) whose rules are those of
// S3.
class SigningSuite : public testing::Test {
 protected:
  std::string Sign(std::string_view path, QueryParameters query = {}, HttpHeaders headers = {}) {
    headers.Add("Host", "example.amazonaws.com");
    headers.Add("X-Amz-Date", "20150830T123600Z");
    const Credentials credentials{.access_key_id = "AKIDEXAMPLE",
                                  .secret_access_key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")};
    const SigningScope scope{.region = "us-east-1", .service = "service"};
    const std::string encoded = UriEncode(path, true);
    return SignatureOf(Authorization({.method = "GET",
                                      .encoded_path = encoded,
                                      .query = std::move(query),
                                      .headers = std::move(headers),
                                      .payload_sha256 = kEmptySha256},
                                     credentials, scope, "20150830T123600Z"));
  }
};

TEST_F(SigningSuite, SignsPaths) {
  EXPECT_EQ(Sign("/"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31") << "get-vanilla";
  EXPECT_EQ(Sign("//example//"), "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5")
      << "get-slashes-unnormalized";
  EXPECT_EQ(Sign("/example space/"), "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741")
      << "get-space-unnormalized";
  EXPECT_EQ(Sign("/\u1234"), "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85") << "get-utf8";
}

TEST_F(SigningSuite, SignsQueriesInTheOrderOfTheirEncodedNames) {
  EXPECT_EQ(Sign("/", {{"Param2", "value2"}, {"Param1", "value1"}}),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500")
      << "get-vanilla-query-order-key-case";
  EXPECT_EQ(Sign("/", {{"Param-3", "Value3"}, {"Param", "Value2"}, {"\u1234", "Value1"}}),
            "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac")
      << "get-vanilla-query-order-encoded";
  EXPECT_EQ(Sign("/", {{"\u1234", "bar"}}), "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04")
      << "get-vanilla-utf8-query";
}

TEST_F(SigningSuite, SignsHeaders) {
  EXPECT_EQ(Sign("/", {}, {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}),
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736")
      << "get-header-value-trim";
  EXPECT_EQ(
      Sign("/", {}, {{"X-Amz-Security-Token", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}}),
      "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8")
      << "get-vanilla-with-session-token";
}

TEST(UriEncode, EncodesAllThatS3DoesNotReserve) {
  EXPECT_EQ(UriEncode("a b+c%20=ä/~_-.Z"), "a%20b%2Bc%2520%3D%C3%A4%2F~_-.Z");
  EXPECT_EQ(UriEncode("a//b c/", true), "a//b%20c/");
  EXPECT_EQ(CanonicalQuery({{"b", "2/+="}, {"a-b", ""}, {"a", "1"}}), "a=1&a-b=&b=2%2F%2B%3D");
}

TEST(UriDecode, UndoesEncodingAndRefusesHalfOfIt) {
  EXPECT_EQ(Must(UriDecode(UriEncode("a b+c%20=ä/~"))), "a b+c%20=ä/~");
  EXPECT_EQ(Must(UriDecode("a+b")), "a+b");
  for (const std::string_view bad : {"%", "%4", "%zz", "a%2"})
    EXPECT_THAT(UriDecode(bad), Fails(Code::kInvalid)) << bad;
}

TEST(SignedHeaders, CarryDateDigestAndTokenAndNoSecret) {
  const Credentials credentials{
      .access_key_id = "AKID", .secret_access_key = Secret("topsecret"), .session_token = Secret("token")};
  const auto time = std::chrono::system_clock::from_time_t(1440938160);
  const RequestToSign request{
      .method = "GET", .encoded_path = "/", .query = {}, .headers = {{"Host", "h"}}, .payload_sha256 = kEmptySha256};
  const HttpHeaders headers = SignedHeaders(request, credentials, {.region = "r"}, time);
  EXPECT_EQ(headers.Find("x-amz-date"), "20150830T123600Z");
  EXPECT_EQ(headers.Find("x-amz-content-sha256"), kEmptySha256);
  EXPECT_EQ(headers.Find("x-amz-security-token"), "token");
  EXPECT_THAT(*headers.Find("Authorization"),
              HasSubstr("Credential=AKID/20150830/r/s3/aws4_request, "
                        "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "));
  for (const HttpHeaders::Field& field : headers.fields()) EXPECT_THAT(field.value, Not(HasSubstr("topsecret")));
}

TEST(SignedHeaders, AreGooglesWordsInGooglesDialect) {
  const Credentials credentials{.access_key_id = "GOOG1", .secret_access_key = Secret("s"), .session_token = {}};
  const RequestToSign request{
      .method = "GET", .encoded_path = "/", .query = {}, .headers = {{"Host", "h"}}, .payload_sha256 = kEmptySha256};
  const HttpHeaders headers =
      SignedHeaders(request, credentials, {.region = "auto", .service = "storage", .names = kGoogleSigning},
                    std::chrono::system_clock::from_time_t(1440938160));
  EXPECT_EQ(headers.Find("x-goog-date"), "20150830T123600Z");
  EXPECT_FALSE(headers.Find("x-amz-date"));
  EXPECT_THAT(*headers.Find("Authorization"),
              HasSubstr("GOOG4-HMAC-SHA256 Credential=GOOG1/20150830/auto/storage/goog4_request, "));
}

TEST(SignedHeaders, AreLeftAloneForAnonymousRequests) {
  const RequestToSign request{
      .method = "GET", .encoded_path = "/", .query = {}, .headers = {{"Host", "h"}}, .payload_sha256 = kEmptySha256};
  EXPECT_EQ(SignedHeaders(request, {}, {.region = "r"}, {}).fields().size(), 1u);
}

}  // namespace
}  // namespace skerry
