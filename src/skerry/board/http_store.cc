#include "skerry/board/http_store.h"

#include <algorithm>
#include <charconv>

#include "skerry/base/hash.h"
#include "skerry/base/text.h"
#include "skerry/board/keys.h"
#include "skerry/http/range.h"
#include "skerry/http/retrying.h"
#include "skerry/s3/uri.h"

namespace skerry {
namespace {

constexpr uint64_t kRoomForErrors = 64 << 10;
constexpr size_t kShownOfErrors = 200;

constexpr const char* kWaitHeader = "Skerry-Wait";
// Of the answer to a request that waits, beyond what it waits for.
constexpr std::chrono::seconds kSlackOfWaiting{10};

}  // namespace

HttpStore::HttpStore(HttpStoreOptions options) : options_(std::move(options)), http_(options_.http) {}

Result<std::shared_ptr<HttpStore>> HttpStore::Open(HttpStoreOptions options) {
  std::string& url = options.url;
  while (url.ends_with('/')) url.pop_back();
  const size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  if (scheme == 0 || url.size() == scheme || url[scheme] == '/' || url.find_first_of("?#@ ") != std::string::npos) {
    return Fail(Code::kInvalid, "\"{}\" can't be the address of a board: it has the form https://host/path",
                UrlForMessages(url));
  }
  return std::shared_ptr<HttpStore>(new HttpStore(std::move(options)));
}

HttpRequest HttpStore::RequestFor(std::string method, std::string_view key, uint64_t limit) const {
  HttpRequest request;
  request.method = std::move(method);
  request.url = options_.url + "/" + UriEncode(key, /*keep_slashes=*/true);
  request.body_limit = limit;
  request.stall_timeout = options_.stall_timeout;
  if (!options_.token.empty()) request.headers.Add("Authorization", "Bearer " + options_.token);
  return request;
}

Result<HttpResponse> HttpStore::Send(std::string method, std::string_view key, uint64_t limit,
                                     const std::function<void(HttpRequest&)>& prepare) {
  SKERRY_TRY(ValidateKey(key));
  Backoff backoff(options_.retry, budget_, options_.waiting);
  return SendWithRetries(backoff, [&] {
    HttpRequest request = RequestFor(method, key, limit);
    if (prepare) prepare(request);
    return http_.Send(request);
  });
}

tl::unexpected<Error> HttpStore::Failure(std::string_view method, std::string_view key,
                                         const HttpResponse& response) const {
  const int status = response.status;
  const std::string url = options_.url + "/" + UriEncode(key, true);
  if (status == 404 || status == 410) return Fail(Code::kNotFound, "{} is not there ({})", url, status);
  std::string advice;
  if (const auto location = response.headers.Find("Location"); location && status >= 300 && status < 400) {
    advice = fmt::format("; redirects are not followed: use {}", UrlForMessages(*location));
  }
  if (status == 401 || status == 403) {
    advice = options_.token.empty() ? "; a token can be given: ?token_file=FILE" : "; this is about the given token";
  }
  const bool passing = status >= 500 || status == 429;
  return Fail(passing ? Code::kUnavailable : Code::kInvalid, "{} {} answered {} {}{}", method, url, status,
              Printable(AsText(response.body).substr(0, kShownOfErrors)), advice);
}

tl::unexpected<Error> HttpStore::ReadOnly(std::string_view what) const {
  return Fail(Code::kUnsupported, "{} can't {}: a board behind a web server can only be read; name the board itself",
              Describe(), what);
}

Result<Object> HttpStore::Get(std::string_view key, uint64_t limit) {
  SKERRY_ASSIGN(HttpResponse response, Send("GET", key, std::max(limit, kRoomForErrors), nullptr));
  return ObjectOf(key, limit, std::move(response));
}

Result<Object> HttpStore::ObjectOf(std::string_view key, uint64_t limit, HttpResponse response) const {
  if (response.status != 200) return Failure("GET", key, response);
  if (response.body.size() > limit) {
    return Fail(Code::kCorrupt, "{} has {} bytes, more than the limit of {}", key, response.body.size(), limit);
  }
  std::optional<std::string> etag = response.headers.Find("ETag");
  Generation generation(etag ? *std::move(etag) : Sha256::Of(response.body).Hex());
  return Object{std::move(response.body), std::move(generation)};
}

Result<std::optional<Object>> HttpStore::WaitForChange(std::string_view key, const Generation& last, uint64_t limit,
                                                       std::chrono::milliseconds time) {
  SKERRY_TRY(ValidateKey(key));
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(time);
  HttpRequest request = RequestFor("GET", key, std::max(limit, kRoomForErrors));
  request.headers.Add("If-None-Match", last.token());
  request.headers.Add(kWaitHeader, std::to_string(seconds.count()));
  request.stall_timeout = seconds + kSlackOfWaiting;
  SKERRY_ASSIGN(HttpResponse response, http_.Send(request));
  const bool waits = response.headers.FindValue(kWaitHeader) != nullptr;
  if (response.status == 304 && waits) return std::nullopt;
  if (response.status == 304) return Store::WaitForChange(key, last, limit, time);
  SKERRY_ASSIGN(Object object, ObjectOf(key, limit, std::move(response)));
  if (!waits && object.generation == last) return Store::WaitForChange(key, last, limit, time);
  return std::optional(std::move(object));
}

Status HttpStore::ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) {
  return ReadRangeTelling(key, offset, out, nullptr);
}

Status HttpStore::ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                                   const std::function<void(uint64_t)>& told) {
  if (out.size() > UINT64_MAX - offset) {
    return Fail(Code::kCorrupt, "{}: no object has {} bytes at {}", key, out.size(), offset);
  }
  if (out.empty()) {
    SKERRY_ASSIGN(const ObjectInfo info, Stat(key));
    if (offset <= info.size) return {};
    return Fail(Code::kCorrupt, "{} has {} bytes, but 0 bytes at {} were asked for", key, info.size, offset);
  }
  RangeReader reader(offset, out, told);
  SKERRY_ASSIGN(const HttpResponse response,
                Send("GET", key, kRoomForErrors, [&](HttpRequest& request) { reader.Prepare(request); }));
  if (!response.ok() && response.status != 416) return Failure("GET", key, response);
  if (Status finished = reader.Finish(response); !finished) return Annotate(std::move(finished).error(), key);
  return {};
}

Result<ObjectInfo> HttpStore::Stat(std::string_view key) {
  SKERRY_ASSIGN(const HttpResponse response, Send("HEAD", key, kRoomForErrors, nullptr));
  if (response.status != 200) return Failure("HEAD", key, response);
  const std::string text = response.headers.Find("Content-Length").value_or("");
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return Fail(Code::kUnavailable, "HEAD {}/{} answered without a Content-Length", options_.url, key);
  }
  return ObjectInfo{.size = size};
}

Status HttpStore::PutIfAbsent(std::string_view, const ByteSource&) { return ReadOnly("store an object"); }

Result<Generation> HttpStore::CompareAndSwap(std::string_view, const std::optional<Generation>&, ByteSpan) {
  return ReadOnly("move a head");
}

Status HttpStore::Delete(std::string_view) { return ReadOnly("delete an object"); }

Result<std::vector<std::string>> HttpStore::List(std::string_view) { return ReadOnly("list its objects"); }

}  // namespace skerry
