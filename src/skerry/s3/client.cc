#include "skerry/s3/client.h"

#include <algorithm>

#include "skerry/base/hash.h"
#include "skerry/base/text.h"
#include "skerry/http/retrying.h"
#include "skerry/s3/error_answer.h"
#include "skerry/s3/sign.h"

namespace skerry {
namespace {

constexpr uint64_t kBlock = 1 << 20;

bool HasOnly(std::string_view text, std::string_view also) {
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || also.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

Result<std::string> DigestOf(const Payload& payload) {
  Sha256 hash;
  Bytes block(std::min(payload.size, kBlock));
  for (uint64_t done = 0; done < payload.size;) {
    const MutableByteSpan part = MutableByteSpan(block).first(std::min(payload.size - done, kBlock));
    SKERRY_TRY(payload.read(done, part));
    hash.Update(part);
    done += part.size();
  }
  return hash.Finish().Hex();
}

}  // namespace

Payload Payload::Of(ByteSpan bytes) {
  return {.size = bytes.size(), .read = [bytes](uint64_t offset, MutableByteSpan out) -> Status {
            std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
            return {};
          }};
}

Result<std::shared_ptr<S3Client>> S3Client::Make(S3Options options) {
  if (options.bucket.size() < 3 || options.bucket.size() > 255 || !HasOnly(options.bucket, "-._") ||
      options.bucket.find("..") != std::string::npos) {
    return Fail(Code::kInvalid, "\"{}\" can't be the name of a bucket", Printable(options.bucket));
  }
  if (options.region.empty() || !HasOnly(options.region, "-_")) {
    return Fail(Code::kInvalid, "\"{}\" can't be a region", Printable(options.region));
  }
  const std::string& endpoint = options.endpoint;
  const size_t scheme = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  const std::string_view host = std::string_view(endpoint).substr(scheme);
  if (scheme == 0 || host.empty() || !HasOnly(host, "-.:[]_")) {
    return Fail(Code::kInvalid, "\"{}\" can't be an endpoint: it has the form http://host:port or https://host",
                UrlForMessages(endpoint));
  }
  return std::shared_ptr<S3Client>(new S3Client(std::move(options)));
}

S3Client::S3Client(S3Options options)
    : options_(std::move(options)), http_(options_.http), credentials_(options_.credentials) {
  const bool https = options_.endpoint.starts_with("https://");
  host_ = options_.endpoint.substr(https ? 8 : 7);
  const std::string_view default_port = https ? ":443" : ":80";
  if (host_.ends_with(default_port)) host_.resize(host_.size() - default_port.size());
  if (!options_.path_style) host_ = options_.bucket + "." + host_;
  origin_ = (https ? "https://" : "http://") + host_;
}

std::string S3Client::Describe() const { return fmt::format("bucket {} at {}", options_.bucket, options_.endpoint); }

std::string S3Client::PathOf(const std::string& key) const {
  return (options_.path_style ? "/" + options_.bucket : std::string()) + "/" + UriEncode(key, /*keep_slashes=*/true);
}

std::string S3Client::UrlOf(const std::string& key) const { return origin_ + PathOf(key); }

std::string S3Client::TokenOf(const HttpResponse& response) const {
  const bool google = options_.conditions == ConditionDialect::kGoogle;
  return response.headers.Find(google ? "x-goog-generation" : "ETag").value_or("");
}

Result<HttpResponse> S3Client::SendOnce(const Call& call, const std::string& payload_sha256) {
  const bool google = options_.conditions == ConditionDialect::kGoogle;
  SKERRY_ASSIGN(const Credentials credentials, credentials_.Get());
  HttpRequest request;
  request.method = call.method;
  request.headers = call.headers;
  request.headers.Add("Host", host_);
  if (call.prepare) call.prepare(request);
  const std::string path = PathOf(call.key);
  const SigningScope scope{.region = options_.region,
                           .service = google ? "storage" : "s3",
                           .names = google ? kGoogleSigning : kAmazonSigning};
  request.headers = SignedHeaders({.method = call.method,
                                   .encoded_path = path,
                                   .query = call.query,
                                   .headers = std::move(request.headers),
                                   .payload_sha256 = payload_sha256},
                                  credentials, scope, options_.clock->Now());
  const std::string query = CanonicalQuery(call.query);
  request.url = origin_ + path + (query.empty() ? "" : "?" + query);
  request.read_body = call.payload.read;
  request.body_size = call.payload.size;
  request.body_limit = call.body_limit;
  request.stall_timeout = call.stall_timeout.count() > 0 ? call.stall_timeout : options_.stall_timeout;
  request.fresh_connection = call.fresh_connection;
  return http_.Send(request);
}

Result<HttpResponse> S3Client::Send(const Call& call) {
  SKERRY_ASSIGN(const std::string payload_sha256, DigestOf(call.payload));
  Backoff backoff = NewBackoff();
  const auto attempt = [&] { return SendOnce(call, payload_sha256); };
  const auto transient = [&](const HttpResponse& response) {
    return call.repeat &&
           (IsTransient(response) || IsTransientError(response) || (call.transient && call.transient(response)));
  };
  if (!call.repeat) {
    Result<HttpResponse> response = attempt();
    if (response && response->ok()) backoff.Succeeded();
    return response;
  }
  Result<HttpResponse> response = SendWithRetries(backoff, attempt, transient);
  if (response && ReadS3Error(*response).code == "ExpiredToken" && credentials_.Refresh()) response = attempt();
  return response;
}

tl::unexpected<Error> S3Client::Failure(const Call& call, const HttpResponse& response) {
  const Result<Credentials> credentials = credentials_.Get();
  return tl::unexpected<Error>(
      ExplainS3Error(response, {.method = call.method,
                                .url = UrlForMessages(UrlOf(call.key)),
                                .bucket = options_.bucket,
                                .region = options_.region,
                                .credentials = credentials ? credentials->Describe() : credentials.error().message,
                                .now = options_.clock->Now()}));
}

}  // namespace skerry
