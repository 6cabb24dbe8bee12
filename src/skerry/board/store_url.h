// Which store a board's name means.
#ifndef SKERRY_BOARD_STORE_URL_H_
#define SKERRY_BOARD_STORE_URL_H_

#include <memory>
#include <string>
#include <string_view>

#include "skerry/base/result.h"
#include "skerry/board/http_store.h"
#include "skerry/board/store.h"
#include "skerry/s3/client.h"
#include "skerry/s3/credentials.h"

namespace skerry {

// For the help of commands that take a board.
inline constexpr const char kBoardHelp[] =
    "Board: a directory, file:///…, s3://bucket/prefix?endpoint=…&region=… or, to read only, http(s)://…";

// A directory (plain path or file:///…), a bucket, or a web server; other schemes are kUnsupported, by name. Asks no
// server anything. `create`: make the directory.
// `retry`: how often a server is asked again before that is an error.
Result<std::shared_ptr<Store>> OpenStore(std::string_view board, bool create, const RetryPolicy& retry = {});

// s3://bucket/prefix?key=value&…, percent-encoded. The keys:
//   endpoint=http://host:port  instead of Amazon's; else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL
//   region=R                   else AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1; "auto" where the server
//                              wants that
//   style=path|virtual         path with an endpoint and for buckets with dots, else virtual
//   profile=NAME               of ~/.aws; else AWS_PROFILE
//   anonymous=true             unsigned requests
//   ca=FILE                    authorities to trust; else AWS_CA_BUNDLE
//   conditions=s3|google       how the server takes conditional writes; google also means its endpoint and signatures
// Unknown keys, a fragment, and names or passwords in the URL are kInvalid.
struct S3Place {
  S3Options options;
  std::string prefix;
};
Result<S3Place> ParseS3Url(std::string_view url, const Environment& environment);

// http(s)://host/path?key=value&…, percent-encoded. The keys:
//   ca=FILE                    authorities to trust; else AWS_CA_BUNDLE
//   token_file=FILE            the bearer token that the server wants; read here
Result<HttpStoreOptions> ParseHttpUrl(std::string_view url, const Environment& environment);

}  // namespace skerry

#endif  // SKERRY_BOARD_STORE_URL_H_
