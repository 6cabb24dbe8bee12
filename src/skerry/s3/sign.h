// AWS Signature Version 4 in the Authorization header ("Authenticating Requests (AWS Signature Version 4)" in the
// Amazon S3 API Reference). S3's rules: the path is encoded once and not normalised, the payload's SHA-256 is a header.
// Google's V4 signatures (https://cloud.google.com/storage/docs/authentication/signatures) are the same with other
// names.
#ifndef SKERRY_S3_SIGN_H_
#define SKERRY_S3_SIGN_H_

#include <chrono>
#include <string>
#include <string_view>

#include "skerry/base/hash.h"
#include "skerry/http/headers.h"
#include "skerry/s3/credentials.h"
#include "skerry/s3/uri.h"

namespace skerry {

// The words of a dialect of the algorithm.
struct SigningNames {
  std::string_view algorithm = "AWS4-HMAC-SHA256";
  std::string_view key_prefix = "AWS4";
  std::string_view terminator = "aws4_request";
  std::string_view header_prefix = "x-amz-";
};
inline constexpr SigningNames kAmazonSigning;
inline constexpr SigningNames kGoogleSigning{"GOOG4-HMAC-SHA256", "GOOG4", "goog4_request", "x-goog-"};

struct SigningScope {
  std::string region;
  std::string service = "s3";
  SigningNames names = kAmazonSigning;
};

struct RequestToSign {
  std::string_view method;
  std::string_view encoded_path;  // "/bucket/a%20b"
  QueryParameters query;
  HttpHeaders headers;  // host and all others that are to be signed; each name once
  std::string payload_sha256;
};

// "20130524T000000Z"
std::string FormatAmzDate(std::chrono::system_clock::time_point time);

std::string CanonicalRequest(const RequestToSign& request);

// The value of the Authorization header. `amz_date` must be in request.headers too.
std::string Authorization(const RequestToSign& request, const Credentials& credentials, const SigningScope& scope,
                          std::string_view amz_date);

// Adds the headers of date, payload digest and session token to `request`, and returns all headers to send, with
// Authorization. Anonymous: returns them as they are.
HttpHeaders SignedHeaders(RequestToSign request, const Credentials& credentials, const SigningScope& scope,
                          std::chrono::system_clock::time_point now);

}  // namespace skerry

#endif  // SKERRY_S3_SIGN_H_
