// One bucket of S3 or of something that speaks like it. Each method is one operation with its retries; what they mean
// for a board is board/s3_store.h's business.
#ifndef SKERRY_S3_CLIENT_H_
#define SKERRY_S3_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/bytes.h"
#include "skerry/base/clock.h"
#include "skerry/base/result.h"
#include "skerry/base/retry.h"
#include "skerry/http/client.h"
#include "skerry/s3/credentials.h"
#include "skerry/s3/uri.h"

namespace skerry {

// How a write says what it expects to be there.
enum class ConditionDialect {
  kS3,      // If-Match with an ETag, If-None-Match: *
  kGoogle,  // x-goog-if-generation-match with a number, 0 for absence; signed as Google wants it
};

struct S3Options {
  std::string bucket;
  std::string endpoint;     // "https://s3.eu-central-1.amazonaws.com", "http://127.0.0.1:8333"; no path
  bool path_style = false;  // endpoint/bucket/key instead of bucket.endpoint/key
  std::string region = "us-east-1";
  ConditionDialect conditions = ConditionDialect::kS3;
  HttpClientOptions http;
  CredentialOptions credentials;
  // Parts of an upload; larger than this is uploaded in parts, `part_threads` at once.
  uint64_t part_bytes = 8 << 20;
  int part_threads = 4;
  std::chrono::seconds stall_timeout{30};
  RetryPolicy retry;
  Waiting waiting = Waiting::Real();
  const Clock* clock = &Clock::System();
};

// What is written: `size` bytes that can be read several times and from several threads at once.
struct Payload {
  uint64_t size = 0;
  std::function<Status(uint64_t offset, MutableByteSpan out)> read;

  // Does not own the bytes.
  static Payload Of(ByteSpan bytes);
};

// An object as it was read: `token` is its ETag verbatim, or its generation in Google's dialect.
struct S3Object {
  Bytes bytes;
  std::string token;
};
struct S3ObjectInfo {
  uint64_t size = 0;
  std::string token;
};

// What a write expects: nothing there (no token), or what the token describes.
struct WriteCondition {
  std::optional<std::string> token;
};

struct WriteOutcome {
  enum class Kind {
    kWritten,
    kConditionFailed,  // somebody else wrote it, or it is gone
    kUndecided,        // 409, 5xx, a lost connection: it may have been written
  };
  Kind kind;
  std::string token;                                    // kWritten; may be empty where the server sends none
  Error reason{Code::kUnavailable, ""};                 // of the other two
  std::optional<std::chrono::milliseconds> asked = {};  // a pause that the server wants
};

enum class UploadOutcome {
  kStored,
  kMaybe,  // the answer to the completion was lost: look
};

struct S3Listing {
  std::vector<std::string> keys;
  std::vector<std::string> folders;  // with a delimiter: the common prefixes, ending in it
};

// Thread-safe; operations of several threads run at once over connections of their own and share one retry budget.
class S3Client {
 public:
  // kInvalid for a bucket, endpoint or region that can't be one. Asks the server nothing.
  static Result<std::shared_ptr<S3Client>> Make(S3Options options);

  // Without the credentials: "bucket b at http://127.0.0.1:8333".
  std::string Describe() const;
  const S3Options& options() const { return options_; }
  Backoff NewBackoff() { return Backoff(options_.retry, budget_, options_.waiting); }

  // kNotFound for a missing object; a bucket that is missing, keys that are wrong and the like are kInvalid and say
  // what to do. More than `limit` bytes are kCorrupt.
  Result<S3Object> Get(const std::string& key, uint64_t limit);
  // Fills `out`, which is not empty; an object that ends before the range does is kCorrupt. `told`: as in RangeReader.
  Status GetRange(const std::string& key, uint64_t offset, MutableByteSpan out,
                  const std::function<void(uint64_t)>& told = nullptr);
  Result<S3ObjectInfo> Head(const std::string& key);

  // One PUT under a condition. `repeat`: an undecided one is sent again within the budget, so that kConditionFailed may
  // be due to the first arrival of the same bytes. Without it the request reaches the server at most once. A server
  // that does not do conditions (501) is kUnsupported.
  Result<WriteOutcome> Put(const std::string& key, const Payload& payload, const WriteCondition& condition,
                           bool repeat);

  // An upload in parts, whatever is there: nothing conditions it. Aborted when it fails.
  Result<UploadOutcome> Upload(const std::string& key, const Payload& payload);
  // The first step of an upload alone: its id. It stays until it is aborted.
  Result<std::string> CreateUpload(const std::string& key);
  // Aborts uploads of keys with this prefix that began at least that long ago; how many they were.
  Result<uint64_t> AbortUploads(const std::string& prefix, std::chrono::seconds older_than);

  // A missing object is no error.
  Status Delete(const std::string& key);

  // All pages. `delimiter`: empty, or "/".
  Result<S3Listing> List(const std::string& prefix, const std::string& delimiter);

 private:
  // A request before it is signed.
  struct Call {
    std::string method;
    std::string key;  // empty: the bucket
    QueryParameters query = {};
    HttpHeaders headers = {};
    Payload payload = {};
    bool repeat = true;
    bool fresh_connection = false;
    uint64_t body_limit = 64 << 10;
    std::chrono::seconds stall_timeout{0};                    // 0: the options'
    std::function<void(HttpRequest&)> prepare = nullptr;      // before each attempt
    std::function<bool(const HttpResponse&)> transient = {};  // what else is worth another attempt
  };

  explicit S3Client(S3Options options);

  Result<HttpResponse> Send(const Call& call);
  Result<HttpResponse> SendOnce(const Call& call, const std::string& payload_sha256);
  // The answer as an error that says what to do.
  tl::unexpected<Error> Failure(const Call& call, const HttpResponse& response);
  std::string UrlOf(const std::string& key) const;
  std::string PathOf(const std::string& key) const;
  std::string TokenOf(const HttpResponse& response) const;

  Result<std::string> UploadPart(const std::string& key, const std::string& id, size_t number, const Payload& part);
  Result<WriteOutcome> CompleteUpload(const std::string& key, const std::string& id,
                                      const std::vector<std::string>& etags);
  Status AbortUpload(const std::string& key, const std::string& id);

  const S3Options options_;
  std::string host_;    // as the Host header has it
  std::string origin_;  // scheme and host
  HttpClient http_;
  CredentialSource credentials_;
  RetryBudget budget_;
};

}  // namespace skerry

#endif  // SKERRY_S3_CLIENT_H_
