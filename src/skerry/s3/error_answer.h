// What a server says when it refuses, and what its user can do about it ("Error responses" in the Amazon S3 API
// Reference).
#ifndef SKERRY_S3_ERROR_ANSWER_H_
#define SKERRY_S3_ERROR_ANSWER_H_

#include <chrono>
#include <string>

#include "skerry/base/result.h"
#include "skerry/http/client.h"

namespace skerry {

// The fields of an <Error> body, cut to a limit; empty where the body is none.
struct S3Error {
  static constexpr size_t kMaxField = 500;
  std::string code, message, region, server_time;
};
S3Error ReadS3Error(const HttpResponse& response);

// 400 RequestTimeout (the body came too slowly) and errors inside a 200 (a completed upload that failed after the
// headers were sent) that may pass. Not what the status says by itself.
bool IsTransientError(const HttpResponse& response);

struct FailedCall {
  std::string method;
  std::string url;
  std::string bucket;
  std::string region;
  std::string credentials;  // without secrets
  std::chrono::system_clock::time_point now;
};

// kNotFound for a missing object, kConflict for a failed condition (412), kUnsupported for 501, kCorrupt for 416,
// kNoSpace for a full disk or quota, kUnavailable for what may pass, else kInvalid.
Error ExplainS3Error(const HttpResponse& response, const FailedCall& call);

}  // namespace skerry

#endif  // SKERRY_S3_ERROR_ANSWER_H_
