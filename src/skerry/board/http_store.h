// A board behind a web server: a relay, a cache, or any server of static files. Read-only.
#ifndef SKERRY_BOARD_HTTP_STORE_H_
#define SKERRY_BOARD_HTTP_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "skerry/base/retry.h"
#include "skerry/board/store.h"
#include "skerry/http/client.h"

namespace skerry {

struct HttpStoreOptions {
  std::string url;  // "https://relay.example/boards/a", without query; percent-encoded
  HttpClientOptions http;
  std::string token;  // sent as a bearer token with each request; empty: none
  std::chrono::seconds stall_timeout{30};
  RetryPolicy retry;
  Waiting waiting = Waiting::Real();
};

// Objects are <url>/<key>, percent-encoded. Writing and listing are kUnsupported. A generation is the ETag, or the
// SHA-256 of the content where the server sends none. Thread-safe.
class HttpStore : public Store {
 public:
  static Result<std::shared_ptr<HttpStore>> Open(HttpStoreOptions options);

  std::string Describe() const override { return UrlForMessages(options_.url); }
  Result<Object> Get(std::string_view key, uint64_t limit) override;
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override;
  Status ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                          const std::function<void(uint64_t)>& told) override;
  // By a conditional GET with the header Skerry-Wait (docs/relay.md); a server that does not answer with the same
  // header does not know it, and is kUnsupported.
  Result<std::optional<Object>> WaitForChange(std::string_view key, const Generation& last, uint64_t limit,
                                              std::chrono::milliseconds time) override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override;
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override;
  Status Delete(std::string_view key) override;
  Result<std::vector<std::string>> List(std::string_view prefix) override;

 private:
  explicit HttpStore(HttpStoreOptions options);

  HttpRequest RequestFor(std::string method, std::string_view key, uint64_t limit) const;
  Result<HttpResponse> Send(std::string method, std::string_view key, uint64_t limit,
                            const std::function<void(HttpRequest&)>& prepare);
  // What a complete answer to GET says.
  Result<Object> ObjectOf(std::string_view key, uint64_t limit, HttpResponse response) const;
  tl::unexpected<Error> Failure(std::string_view method, std::string_view key, const HttpResponse& response) const;
  tl::unexpected<Error> ReadOnly(std::string_view what) const;

  const HttpStoreOptions options_;
  HttpClient http_;
  RetryBudget budget_;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_HTTP_STORE_H_
