#include "skerry/board/http_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <map>

#include "skerry/http/range.h"
#include "skerry/s3/uri.h"
#include "tests/testing/http_server.h"
#include "tests/testing/results.h"
#include "tests/testing/retrying.h"

namespace skerry {
namespace {

using testing::HasSubstr;

std::shared_ptr<HttpStore> StoreAt(const HttpServer& server) {
  HttpStoreOptions options;
  options.url = server.url() + "/board/";
  options.waiting = NoWaiting();
  options.retry.max_attempts = 3;
  return Must(HttpStore::Open(std::move(options)));
}

// What a server of static files does, with or without ranges.
HttpServer::Handler StaticFiles(std::map<std::string, std::string> files, bool ranges) {
  return [files = std::move(files), ranges](const ReceivedRequest& request) {
    const auto found = files.find(UriDecode(request.target).value_or(""));
    if (found == files.end()) return Answer(404, "no such file");
    const std::string& body = found->second;
    if (request.method == "HEAD") return Answer(200, "", {{"Content-Length", std::to_string(body.size())}});
    size_t first = 0, last = 0;
    const std::string range = request.Header("Range");
    if (!ranges || std::sscanf(range.c_str(), "bytes=%zu-%zu", &first, &last) != 2) {
      return Answer(200, body, {{"ETag", "\"" + std::to_string(body.size()) + "\""}});
    }
    if (first >= body.size()) return Answer(416, "", {{"Content-Range", fmt::format("bytes */{}", body.size())}});
    last = std::min(last, body.size() - 1);
    return Answer(206, body.substr(first, last - first + 1),
                  {{"Content-Range", fmt::format("bytes {}-{}/{}", first, last, body.size())}});
  };
}

TEST(HttpStore, ReadsObjectsAndRangesFromAnyStaticServer) {
  for (const bool ranges : {true, false}) {
    HttpServer server(StaticFiles({{"/board/runs/a b/ä?#%", "0123456789"}, {"/board/empty", ""}}, ranges));
    const auto store = StoreAt(server);
    const Object object = Must(store->Get("runs/a b/ä?#%", 10));
    EXPECT_EQ(AsText(object.bytes), "0123456789");
    EXPECT_EQ(object.generation, Generation("\"10\""));
    EXPECT_EQ(Must(store->Stat("runs/a b/ä?#%")).size, 10u);
    Bytes out(4);
    Must(store->ReadRange("runs/a b/ä?#%", 3, out));
    EXPECT_EQ(AsText(out), "3456");
    EXPECT_THAT(store->ReadRange("runs/a b/ä?#%", 7, out), Fails(Code::kCorrupt, HasSubstr("has 10 bytes")));
    EXPECT_THAT(store->ReadRange("runs/a b/ä?#%", 70, out), Fails(Code::kCorrupt, HasSubstr("has 10 bytes")));
    EXPECT_THAT(store->ReadRange("runs/a b/ä?#%", UINT64_MAX, out), Fails(Code::kCorrupt));
    EXPECT_THAT(store->ReadRange("runs/a b/ä?#%", 10, {}), Succeeds());
    EXPECT_THAT(store->ReadRange("runs/a b/ä?#%", 11, {}), Fails(Code::kCorrupt));
    EXPECT_EQ(AsText(Must(store->Get("empty", 10)).bytes), "");
    EXPECT_THAT(store->Get("runs/a b/ä?#%", 9), Fails(Code::kCorrupt, HasSubstr("more than the limit of 9")));
    EXPECT_THAT(store->Get("missing", 9), Fails(Code::kNotFound));
    EXPECT_THAT(store->Stat("missing"), Fails(Code::kNotFound));
    EXPECT_THAT(store->ReadRange("missing", 0, out), Fails(Code::kNotFound));
    EXPECT_THAT(store->Get("../x", 9), Fails(Code::kInvalid));
  }
}

TEST(HttpStore, CanOnlyBeRead) {
  HttpServer server(std::vector<WireAnswer>{});
  const auto store = StoreAt(server);
  EXPECT_THAT(store->PutIfAbsent("k", MemorySource("x")), Fails(Code::kUnsupported, HasSubstr("can only be read")));
  EXPECT_THAT(store->CompareAndSwap("k", std::nullopt, AsBytes("x")), Fails(Code::kUnsupported));
  EXPECT_THAT(store->Delete("k"), Fails(Code::kUnsupported));
  EXPECT_THAT(store->List(""), Fails(Code::kUnsupported));
  EXPECT_THAT(store->ListNames(""), Fails(Code::kUnsupported));
  EXPECT_EQ(Must(store->SweepLeftovers(std::chrono::seconds(0))), 0u);
  EXPECT_EQ(server.requests().size(), 0u);
}

TEST(HttpStore, RepeatsWhatMayPassAndExplainsWhatWillNot) {
  HttpServer server({Answer(503),
                     {.bytes = "", .then = WireAnswer::Then::kReset},
                     Answer(200, "x"),
                     Answer(403, "\x1b[1mno"),
                     Answer(301, "", {{"Location", "https://else/"}}),
                     Answer(503),
                     Answer(503),
                     Answer(503)});
  const auto store = StoreAt(server);
  const Object object = Must(store->Get("k", 10));
  EXPECT_EQ(object.generation, Generation(Sha256::Of("x").Hex())) << "where there is no ETag";
  EXPECT_THAT(store->Get("k", 10), Fails(Code::kInvalid, HasSubstr("answered 403 \\x1b[1mno")));
  EXPECT_THAT(store->Get("k", 10), Fails(Code::kInvalid, HasSubstr("redirects are not followed: use https://else/")));
  EXPECT_THAT(store->Get("k", 10), Fails(Code::kUnavailable, HasSubstr("503")));
  EXPECT_EQ(server.requests().size(), 8u);
}

TEST(HttpStore, TellsOfBytesAsTheyComeAndBeginsAgainAfterABreak) {
  const auto part = [](std::string_view body, size_t sent) {
    return WireAnswer{.bytes = fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes "
                                           "0-{}/{}\r\n\r\n{}",
                                           body.size(), body.size() - 1, body.size(), body.substr(0, sent)),
                      .then = sent < body.size() ? WireAnswer::Then::kClose : WireAnswer::Then::kKeep};
  };
  HttpServer server({part("0123456789", 4), part("0123456789", 10)});
  const auto store = StoreAt(server);
  Bytes out(10);
  std::vector<uint64_t> told;
  Must(store->ReadRangeTelling("k", 0, out, [&](uint64_t there) { told.push_back(there); }));
  EXPECT_EQ(AsText(out), "0123456789");
  EXPECT_THAT(told, testing::ElementsAre(4, 10));
}

TEST(HttpStore, SendsItsTokenWithEveryRequestAndSaysWhereOneCouldCome) {
  HttpServer server([](const ReceivedRequest& request) {
    return request.Header("Authorization") == "Bearer hunter2" ? Answer(200, "x") : Answer(401, "no");
  });
  EXPECT_THAT(StoreAt(server)->Get("k", 10), Fails(Code::kInvalid, HasSubstr("?token_file=FILE")));
  HttpStoreOptions options;
  options.url = server.url();
  options.token = "hunter2";
  const auto store = Must(HttpStore::Open(std::move(options)));
  EXPECT_EQ(AsText(Must(store->Get("k", 10)).bytes), "x");
  Must(store->Stat("k"));
  EXPECT_THAT(store->Describe(), testing::Not(HasSubstr("hunter2")));
}

TEST(HttpStore, WaitsForAChangeWhereTheServerKnowsHow) {
  const HttpHeaders waits{{"Skerry-Wait", "5"}, {"ETag", "\"new\""}};
  HttpServer server({Answer(304, "", waits), Answer(200, "x", waits), Answer(404), Answer(503)});
  const auto store = StoreAt(server);
  const auto wait = [&] {
    return store->WaitForChange("k", Generation("\"old\""), 10, std::chrono::milliseconds(4100));
  };
  EXPECT_EQ(Must(wait()), std::nullopt);
  const auto changed = Must(wait());
  ASSERT_TRUE(changed);
  EXPECT_EQ(AsText(changed->bytes), "x");
  EXPECT_EQ(changed->generation, Generation("\"new\""));
  EXPECT_THAT(wait(), Fails(Code::kNotFound));
  EXPECT_THAT(wait(), Fails(Code::kUnavailable));
  for (const ReceivedRequest& request : server.requests()) {
    EXPECT_EQ(request.Header("Skerry-Wait"), "5") << "rounded up";
    EXPECT_EQ(request.Header("If-None-Match"), "\"old\"");
  }
}

TEST(HttpStore, KnowsAServerThatDoesNotWait) {
  HttpServer server({Answer(304), Answer(200, "x"), Answer(200, "y")});
  const auto store = StoreAt(server);
  const auto wait = [&] {
    return store->WaitForChange("k", Generation(Sha256::Of("x").Hex()), 10, std::chrono::milliseconds(1000));
  };
  EXPECT_THAT(wait(), Fails(Code::kUnsupported));
  EXPECT_THAT(wait(), Fails(Code::kUnsupported)) << "the same bytes, at once";
  EXPECT_EQ(AsText(Must(wait())->bytes), "y") << "they have changed all the same";
}

TEST(HttpStore, RefusesAddressesThatCannotBe) {
  for (const std::string bad : {"", "host/path", "ftp://h", "http://", "http:///x", "http://h?x", "http://u@h"}) {
    HttpStoreOptions options;
    options.url = bad;
    EXPECT_THAT(HttpStore::Open(std::move(options)), Fails(Code::kInvalid)) << bad;
  }
}

}  // namespace
}  // namespace skerry
