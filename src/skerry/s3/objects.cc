// Single objects: reading, writing under a condition, deleting.
#include <charconv>

#include "skerry/http/range.h"
#include "skerry/http/retrying.h"
#include "skerry/s3/client.h"
#include "skerry/s3/error_answer.h"

namespace skerry {
namespace {

std::optional<uint64_t> ContentLength(const HttpResponse& response) {
  const std::optional<std::string> text = response.headers.Find("Content-Length");
  if (!text) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

void AddCondition(HttpHeaders& headers, ConditionDialect dialect, const WriteCondition& condition) {
  if (dialect == ConditionDialect::kGoogle) {
    headers.Add("x-goog-if-generation-match", condition.token.value_or("0"));
  } else if (condition.token) {
    headers.Add("If-Match", *condition.token);
  } else {
    headers.Add("If-None-Match", "*");
  }
}

}  // namespace

Result<S3Object> S3Client::Get(const std::string& key, uint64_t limit) {
  constexpr uint64_t kRoomForErrors = 64 << 10;
  const Call call{.method = "GET", .key = key, .body_limit = std::max(limit, kRoomForErrors)};
  SKERRY_ASSIGN(HttpResponse response, Send(call));
  if (response.status != 200) return Failure(call, response);
  if (response.body.size() > limit) {
    return Fail(Code::kCorrupt, "{} has {} bytes, more than the limit of {}", UrlOf(key), response.body.size(), limit);
  }
  return S3Object{std::move(response.body), TokenOf(response)};
}

Status S3Client::GetRange(const std::string& key, uint64_t offset, MutableByteSpan out,
                          const std::function<void(uint64_t)>& told) {
  RangeReader reader(offset, out, told);
  Backoff backoff = NewBackoff();
  const Call call{.method = "GET", .key = key, .prepare = [&](HttpRequest& request) { reader.Prepare(request); }};
  while (true) {
    SKERRY_ASSIGN(const HttpResponse response, Send(call));
    if (!response.ok() && response.status != 416) return Failure(call, response);
    Status finished = reader.Finish(response);
    if (finished) return {};
    if (finished.error().code != Code::kUnavailable || !backoff.WaitBeforeRetry()) {
      return Annotate(std::move(finished).error(), UrlForMessages(UrlOf(key)));
    }
  }
}

Result<S3ObjectInfo> S3Client::Head(const std::string& key) {
  const Call call{.method = "HEAD", .key = key};
  SKERRY_ASSIGN(const HttpResponse response, Send(call));
  if (response.status == 200) {
    const std::optional<uint64_t> size = ContentLength(response);
    if (!size) return Fail(Code::kUnavailable, "HEAD {} answered without a Content-Length", UrlOf(key));
    return S3ObjectInfo{*size, TokenOf(response)};
  }
  if (response.status != 404) {
    // An answer to HEAD has no body that says why: a GET of one byte has.
    const Call again{.method = "GET", .key = key, .headers = {{"Range", "bytes=0-0"}}};
    const Result<HttpResponse> reason = Send(again);
    if (reason && reason->status == response.status) return Failure(again, *reason);
  }
  return Failure(call, response);
}

Result<WriteOutcome> S3Client::Put(const std::string& key, const Payload& payload, const WriteCondition& condition,
                                   bool repeat) {
  Call call{.method = "PUT", .key = key, .payload = payload, .repeat = repeat, .fresh_connection = !repeat};
  call.transient = [](const HttpResponse& response) { return response.status == 409; };
  AddCondition(call.headers, options_.conditions, condition);
  Result<HttpResponse> sent = Send(call);
  using Kind = WriteOutcome::Kind;
  if (!sent) {
    if (sent.error().code != Code::kUnavailable) return tl::unexpected<Error>(std::move(sent).error());
    return WriteOutcome{Kind::kUndecided, "", std::move(sent).error()};
  }
  const HttpResponse& response = *sent;
  if (response.ok()) return WriteOutcome{Kind::kWritten, TokenOf(response)};
  Error error = Failure(call, response).value();
  if (response.status == 501) {
    return Fail(Code::kUnsupported, "{} can't do conditional writes, which a board needs: {}", Describe(),
                error.message);
  }
  if (response.status == 412 || (error.code == Code::kNotFound && condition.token)) {
    return WriteOutcome{Kind::kConditionFailed, "", std::move(error)};
  }
  if (error.code != Code::kUnavailable) return tl::unexpected<Error>(std::move(error));
  return WriteOutcome{Kind::kUndecided, "", std::move(error), AskedPause(response)};
}

Status S3Client::Delete(const std::string& key) {
  const Call call{.method = "DELETE", .key = key};
  SKERRY_ASSIGN(const HttpResponse response, Send(call));
  if (response.ok()) return {};
  tl::unexpected<Error> failure = Failure(call, response);
  if (failure.value().code == Code::kNotFound) return {};
  return failure;
}

}  // namespace skerry
