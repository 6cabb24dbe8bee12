// A store on a scripted server, and that server's usual answers.
#ifndef SKERRY_BOARD_S3_STORE_TESTING_H_
#define SKERRY_BOARD_S3_STORE_TESTING_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "skerry/board/s3_store.h"
#include "tests/testing/http_server.h"
#include "tests/testing/results.h"
#include "tests/testing/retrying.h"

namespace skerry {

inline std::shared_ptr<S3Store> StoreAt(const HttpServer& server,
                                        const std::function<void(S3Options&)>& change = nullptr) {
  S3Options options;
  options.bucket = "bucket";
  options.endpoint = server.url();
  options.path_style = true;
  options.credentials.anonymous = true;
  options.retry.max_attempts = 4;
  options.waiting = NoWaiting();
  if (change) change(options);
  return Must(S3Store::Open(std::move(options), "board"));
}

inline WireAnswer Written(std::string etag) { return Answer(200, "", {{"ETag", std::move(etag)}}); }
inline WireAnswer Holds(std::string_view body, std::string etag) {
  return Answer(200, body, {{"ETag", std::move(etag)}});
}
inline WireAnswer Refusal(int status, std::string_view code) {
  return Answer(status, fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>m</Message></Error>", code));
}
inline WireAnswer Reset() { return {.bytes = "", .then = WireAnswer::Then::kReset}; }

}  // namespace skerry

#endif  // SKERRY_BOARD_S3_STORE_TESTING_H_
