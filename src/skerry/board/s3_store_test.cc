#include "skerry/board/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "skerry/board/s3_store_testing.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Then = WireAnswer::Then;

TEST(S3StorePut, ComparesWithWhatIsThere) {
  const auto there = [](std::string_view body) {
    return [body](const ReceivedRequest& request) {
      if (request.method == "PUT") return Refusal(412, "PreconditionFailed");
      if (request.method == "HEAD") return Answer(200, "", {{"Content-Length", std::to_string(body.size())}});
      return Answer(206, body, {{"Content-Range", fmt::format("bytes 0-{}/{}", body.size() - 1, body.size())}});
    };
  };
  HttpServer same(there("bytes")), other(there("BYTES")), longer(there("bytes and more"));
  EXPECT_THAT(StoreAt(same)->PutIfAbsent("k", MemorySource("bytes")), Succeeds());
  EXPECT_THAT(StoreAt(other)->PutIfAbsent("k", MemorySource("bytes")), Fails(Code::kConflict));
  EXPECT_THAT(StoreAt(longer)->PutIfAbsent("k", MemorySource("bytes")),
              Fails(Code::kConflict, HasSubstr("14 of them, not 5")));
}

TEST(S3StorePut, IsRepeatedUntilItIsDecided) {
  HttpServer server({Reset(), Refusal(503, "SlowDown"), Refusal(409, "ConditionalRequestConflict"),
                     Refusal(400, "RequestTimeout"), Written("\"b\"")});
  const auto store = StoreAt(server, [](S3Options& options) { options.retry.max_attempts = 5; });
  EXPECT_THAT(store->PutIfAbsent("k", MemorySource("x")), Succeeds());
  EXPECT_EQ(server.requests().size(), 5u);
}

TEST(S3StorePut, GivesUpAfterAsManyAttemptsAsThePolicySays) {
  for (const int status : {409, 503}) {
    HttpServer server([&](const ReceivedRequest&) { return Refusal(status, "SlowDown"); });
    EXPECT_THAT(StoreAt(server)->PutIfAbsent("k", MemorySource("x")), Fails(Code::kUnavailable));
    EXPECT_EQ(server.requests().size(), 4u);
  }
}

TEST(S3StorePut, UploadsBigObjectsInPartsWithoutTrustingConditions) {
  std::mutex mutex;
  std::map<std::string, std::string> parts;
  std::string list;
  HttpServer server([&](const ReceivedRequest& request) {
    const std::lock_guard lock(mutex);
    if (request.method == "HEAD") return Answer(404);
    if (request.target.ends_with("?uploads=")) {
      return Answer(200, "<InitiateMultipartUploadResult><UploadId>id+/=1</UploadId></InitiateMultipartUploadResult>");
    }
    if (request.method == "PUT") {
      parts[request.target] = request.body;
      return Written("\"part<" + request.target.substr(request.target.find("partNumber=") + 11, 1) + ">\"");
    }
    list = request.body;
    return Answer(200, "<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>");
  });
  const auto store = StoreAt(server, [](S3Options& options) { options.part_bytes = 4; });
  EXPECT_THAT(store->PutIfAbsent("k", MemorySource("0123456789")), Succeeds());
  EXPECT_THAT(parts, ElementsAre(testing::Pair("/bucket/board/k?partNumber=1&uploadId=id%2B%2F%3D1", "0123"),
                                 testing::Pair("/bucket/board/k?partNumber=2&uploadId=id%2B%2F%3D1", "4567"),
                                 testing::Pair("/bucket/board/k?partNumber=3&uploadId=id%2B%2F%3D1", "89")));
  EXPECT_THAT(list, AllOf(HasSubstr("<PartNumber>1</PartNumber><ETag>&quot;part&lt;1&gt;&quot;</ETag>"),
                          HasSubstr("<PartNumber>3</PartNumber><ETag>&quot;part&lt;3&gt;&quot;</ETag>")));
}

// A server for uploads whose completion is answered by `complete`.
std::unique_ptr<HttpServer> UploadServer(std::function<WireAnswer(const ReceivedRequest&)> complete) {
  return std::make_unique<HttpServer>([complete = std::move(complete)](const ReceivedRequest& request) {
    if (request.method == "HEAD") return Answer(404);
    if (request.target.ends_with("?uploads=")) {
      return Answer(200, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>");
    }
    if (request.method == "PUT") return Written("\"p\"");
    if (request.method == "DELETE") return Answer(204);
    return complete(request);
  });
}
size_t Count(const HttpServer& server, std::string_view method, std::string_view target_end) {
  size_t count = 0;
  for (const ReceivedRequest& request : server.requests()) {
    count += request.method == method && request.target.ends_with(target_end) ? 1 : 0;
  }
  return count;
}
Status PutBig(const HttpServer& server) {
  return StoreAt(server, [](S3Options& options) { options.part_bytes = 4; })
      ->PutIfAbsent("k", MemorySource("01234567"));
}

TEST(S3StorePut, AbortsAnUploadThatFails) {
  const auto server = UploadServer([](const ReceivedRequest&) { return Refusal(403, "AccessDenied"); });
  EXPECT_THAT(PutBig(*server), Fails(Code::kInvalid, HasSubstr("AccessDenied")));
  EXPECT_EQ(Count(*server, "DELETE", "?uploadId=1"), 1u);
}

TEST(S3StorePut, BeginsAnewAfterACompletionThatLost) {
  int completions = 0;
  const auto server = UploadServer([&](const ReceivedRequest&) {
    return ++completions < 3 ? Refusal(409, "ConditionalRequestConflict")
                             : Answer(200, "<CompleteMultipartUploadResult/>");
  });
  EXPECT_THAT(PutBig(*server), Succeeds());
  EXPECT_EQ(Count(*server, "POST", "?uploads="), 3u);
  EXPECT_EQ(Count(*server, "DELETE", "?uploadId=1"), 2u);
}

TEST(S3StorePut, BelievesNoErrorThatHidesInA200) {
  int completions = 0;
  const auto server = UploadServer([&](const ReceivedRequest&) {
    return ++completions < 3 ? Refusal(200, "InternalError") : Answer(200, "<CompleteMultipartUploadResult/>");
  });
  EXPECT_THAT(PutBig(*server), Succeeds());
  EXPECT_EQ(completions, 3);
  const auto lasting = UploadServer([](const ReceivedRequest&) { return Refusal(200, "InvalidPart"); });
  EXPECT_THAT(PutBig(*lasting), Fails(Code::kInvalid, HasSubstr("InvalidPart")));
}

TEST(S3StorePut, LooksWhetherACompletionArrivedWhoseAnswerWasLost) {
  int completions = 0;
  bool stored = false;
  HttpServer server([&](const ReceivedRequest& request) -> WireAnswer {
    if (request.method == "HEAD" && !stored) return Answer(404);
    if (request.method == "HEAD") return Answer(200, "", {{"Content-Length", "8"}});
    if (request.method == "GET") return Answer(206, "01234567", {{"Content-Range", "bytes 0-7/8"}});
    if (request.target.ends_with("?uploads=")) {
      return Answer(200, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>");
    }
    if (request.method == "PUT") return Written("\"p\"");
    stored = true;
    if (++completions == 1) return Reset();
    return Refusal(404, "NoSuchUpload");
  });
  EXPECT_THAT(PutBig(server), Succeeds());
  EXPECT_EQ(completions, 2);
}

TEST(S3StorePut, SaysSoWhenItsUploadWasAbortedByAnother) {
  const auto server = UploadServer([](const ReceivedRequest&) { return Refusal(404, "NoSuchUpload"); });
  EXPECT_THAT(PutBig(*server), Fails(Code::kUnavailable, HasSubstr("store it again")));
}

TEST(S3StoreRead, RepeatsWhatBrokeOff) {
  HttpServer server(
      {{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", .then = Then::kClose},
       Holds("whole", "\"a\""),
       {.bytes = "HTTP/1.1 206 OK\r\nContent-Range: bytes 1-3/5\r\nContent-Length: 3\r\n\r\nX", .then = Then::kReset},
       Refusal(503, "SlowDown"),
       Answer(206, "hol", {{"Content-Range", "bytes 1-3/5"}})});
  const auto store = StoreAt(server);
  EXPECT_EQ(AsText(Must(store->Get("k", 100)).bytes), "whole");
  Bytes out(3);
  Must(store->ReadRange("k", 1, out));
  EXPECT_EQ(AsText(out), "hol");
}

TEST(S3StoreRead, NeverRepeatsARefusal) {
  for (const int status : {400, 401, 403, 404, 405, 412, 416, 501}) {
    HttpServer server([&](const ReceivedRequest&) { return Refusal(status, "Some"); });
    EXPECT_FALSE(StoreAt(server)->Get("k", 10)) << status;
    EXPECT_EQ(server.requests().size(), 1u) << status;
  }
}

TEST(S3StoreRead, StopsWhenTheBudgetOfAllOperationsIsUsedUp) {
  HttpServer server([](const ReceivedRequest&) { return Refusal(503, "SlowDown"); });
  const auto store = StoreAt(server, [](S3Options& options) { options.retry.max_attempts = 8; });
  for (int i = 0; i < 100; ++i) EXPECT_THAT(store->Get("k", 10), Fails(Code::kUnavailable));
  EXPECT_EQ(server.requests().size(), 100 + static_cast<size_t>(RetryBudget::kCapacity));
}

TEST(S3StoreList, FollowsEveryPageWithItsTokenEncoded) {
  const auto page = [](std::string_view keys, std::string_view next) {
    return Answer(200,
                  fmt::format("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>{}"
                              "</IsTruncated>{}<NextContinuationToken>{}</NextContinuationToken></ListBucketResult>",
                              next.empty() ? "false" : "true", keys, next));
  };
  HttpServer server(
      {page("<Contents><Key>board/b</Key></Contents><Contents><Key>board/</Key></Contents>", "a+b=/&amp;"),
       page("<Contents><Key>board/a&amp;&lt;c</Key></Contents><Contents><Key>else</Key></Contents>", "")});
  EXPECT_EQ(Must(StoreAt(server)->List("")), (std::vector<std::string>{"a&<c", "b"}));
  EXPECT_EQ(server.requests().at(1).target,
            "/bucket/?continuation-token=a%2Bb%3D%2F%26&list-type=2&max-keys=1000&prefix=board%2F");
  HttpServer endless([&](const ReceivedRequest&) { return page("", "same"); });
  EXPECT_THAT(StoreAt(endless)->List(""), Fails(Code::kUnavailable, HasSubstr("no way on")));
}

TEST(S3StoreList, RefusesWhatIsNoList) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  std::string closed = deep;
  for (int i = 0; i < 100'000; ++i) closed += "</a>";
  for (const std::string& body : std::vector<std::string>{"", "<html/>", "<ListBucketResult>", deep, closed,
                                                          "<ListBucketResult>" + closed + "</ListBucketResult>"}) {
    HttpServer server([&](const ReceivedRequest&) { return Answer(200, body); });
    EXPECT_THAT(StoreAt(server)->List(""), Fails(Code::kUnavailable)) << body.substr(0, 50);
  }
}

TEST(S3StoreSweep, AbortsOnlyOldUploadsBelowItsPrefix) {
  std::vector<std::string> aborted;
  HttpServer server([&](const ReceivedRequest& request) {
    if (request.method == "DELETE") {
      aborted.push_back(request.target);
      return Answer(204);
    }
    const auto upload = [](std::string_view key, std::string_view time) {
      return fmt::format("<Upload><Key>{}</Key><UploadId>u</UploadId><Initiated>{}</Initiated></Upload>", key, time);
    };
    return Answer(200, "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>" +
                           upload("board/old", "2020-01-01T00:00:00.000Z") +
                           upload("board/young", "2199-01-01T00:00:00Z") +
                           upload("other/old", "2020-01-01T00:00:00.000Z") +
                           upload("board/odd", "9999-01-01T00:00:00Z") + "</ListMultipartUploadsResult>");
  });
  EXPECT_EQ(Must(StoreAt(server)->SweepLeftovers(std::chrono::hours(24))), 1u);
  EXPECT_THAT(aborted, ElementsAre("/bucket/board/old?uploadId=u"));
}

TEST(S3Store, NamesABucketByItsHostUnlessToldOtherwise) {
  HttpServer server({Holds("x", "\"a\"")});
  const auto store = StoreAt(server, [&](S3Options& options) {
    options.endpoint = fmt::format("http://localhost:{}", server.port());
    options.path_style = false;
  });
  // bucket.localhost is loopback (RFC 6761).
  const Result<Object> read = store->Get("k", 10);
  if (!read) GTEST_SKIP() << "this resolver does not know *.localhost: " << read.error().message;
  EXPECT_EQ(server.requests().at(0).Header("Host"), fmt::format("bucket.localhost:{}", server.port()));
  EXPECT_EQ(server.requests().at(0).target, "/board/k");
}

}  // namespace
}  // namespace skerry
