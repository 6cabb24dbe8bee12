#include "skerry/http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "skerry/base/interrupt.h"
#include "tests/testing/http_server.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Then = WireAnswer::Then;

HttpRequest To(const HttpServer& server, std::string target = "/") {
  HttpRequest request;
  request.url = server.url() + target;
  return request;
}

TEST(HttpClient, SendsAndReceivesAsItIsTold) {
  HttpServer server({Answer(201, "made", {{"eTaG", "\"abc\""}, {"X-Empty", ""}})});
  HttpClient client;
  HttpRequest request = To(server, "/a%20b/../c?x=%2F");
  request.method = "PUT";
  request.headers = {{"If-None-Match", "*"}, {"X-Nothing", ""}};
  request.body = AsBytes("body");
  const HttpResponse response = Must(client.Send(request));
  EXPECT_EQ(response.status, 201);
  EXPECT_EQ(AsText(response.body), "made");
  EXPECT_EQ(response.headers.Find("ETag"), "\"abc\"");
  EXPECT_EQ(response.headers.Find("x-empty"), "");
  EXPECT_EQ(response.headers.Find("missing"), std::nullopt);
  const ReceivedRequest received = server.requests().at(0);
  EXPECT_EQ(received.method, "PUT");
  EXPECT_EQ(received.target, "/a%20b/../c?x=%2F") << "the path is sent as it was given";
  EXPECT_EQ(received.body, "body");
  EXPECT_EQ(received.Header("If-None-Match"), "*");
  EXPECT_TRUE(received.headers.Find("X-Nothing"));
  EXPECT_FALSE(received.headers.Find("Content-Type"));
}

TEST(HttpClient, EndsARequestWhoseCallerIsInterrupted) {
  std::atomic<bool> stop = false;
  const Interruptible scope(&stop);
  HttpServer server([&](const ReceivedRequest&) {
    stop = true;
    return WireAnswer{.then = Then::kHang};
  });
  testing::internal::CaptureStderr();
  EXPECT_THAT(HttpClient().Send(To(server, "/x?secret")),
              Fails(Code::kInterrupted, AllOf(HasSubstr("/x"), Not(HasSubstr("secret")))));
  EXPECT_THAT(HttpClient().Send(To(server)), Fails(Code::kInterrupted));
  EXPECT_EQ(server.requests().size(), 1) << "the second one is not sent";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(HttpClient, SendsABodyFromACallbackWithoutWaitingForLeave) {
  HttpServer server({Answer(200)});
  std::string big(3 << 20, 'x');
  for (size_t i = 0; i < big.size(); i += 1000) big[i] = static_cast<char>('a' + i / 1000 % 26);
  HttpRequest request = To(server);
  request.method = "PUT";
  request.body_size = big.size();
  request.read_body = [&](uint64_t offset, MutableByteSpan out) -> Status {
    std::copy_n(AsBytes(big).begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  };
  EXPECT_THAT(HttpClient().Send(request), Succeeds());
  EXPECT_TRUE(server.requests().at(0).body == big);
  EXPECT_FALSE(server.requests().at(0).headers.Find("Expect"));
  EXPECT_FALSE(server.requests().at(0).headers.Find("Transfer-Encoding"));
}

TEST(HttpClient, GivesBackTheErrorOfABodyThatCannotBeRead) {
  HttpServer server({Answer(200)});
  HttpRequest request = To(server);
  request.method = "PUT";
  request.body_size = 10;
  request.read_body = [](uint64_t, MutableByteSpan) -> Status { return Fail(Code::kIo, "the disk is gone"); };
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kIo, HasSubstr("the disk is gone")));
}

TEST(HttpClient, SendsAnEmptyPutWithItsLength) {
  HttpServer server({Answer(200)});
  HttpRequest request = To(server);
  request.method = "PUT";
  EXPECT_THAT(HttpClient().Send(request), Succeeds());
  EXPECT_EQ(server.requests().at(0).method, "PUT");
  EXPECT_EQ(server.requests().at(0).Header("Content-Length"), "0");
}

TEST(HttpClient, ReadsTheHeadersOfAHead) {
  HttpServer server({Answer(200, "", {{"Content-Length", "123456"}}), Answer(204)});
  HttpClient client;
  HttpRequest request = To(server);
  request.method = "HEAD";
  EXPECT_EQ(Must(client.Send(request)).headers.Find("content-length"), "123456");
  request.method = "DELETE";
  EXPECT_EQ(Must(client.Send(request)).status, 204);
  EXPECT_EQ(server.requests().at(1).method, "DELETE");
}

TEST(HttpClient, KeepsConnections) {
  HttpServer server([](const ReceivedRequest&) { return Answer(200, "x"); });
  HttpClient client;
  for (int i = 0; i < 5; ++i) EXPECT_THAT(client.Send(To(server)), Succeeds());
  EXPECT_EQ(server.connections(), 1);
  HttpRequest fresh = To(server);
  fresh.fresh_connection = true;
  EXPECT_THAT(client.Send(fresh), Succeeds());
  EXPECT_EQ(server.connections(), 2);
}

TEST(HttpClient, ServesManyThreads) {
  HttpServer server([](const ReceivedRequest& request) { return Answer(200, request.target); });
  HttpClient client;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string target = "/" + std::to_string(t) + "/" + std::to_string(i);
        const Result<HttpResponse> response = client.Send(To(server, target));
        right += response && AsText(response->body) == target ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 160);
  EXPECT_LE(server.connections(), 8 * 20);
}

TEST(HttpClient, CallsATruncatedBodyUnavailable) {
  HttpServer server(
      {{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", .then = Then::kClose},
       {.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", .then = Then::kClose},
       {.bytes = "HTTP/1.1 200 OK\r\nContent-Len", .then = Then::kClose},
       {.bytes = "HTTP/1.1 200 OK\r\n\r\nall or half?", .then = Then::kClose},
       {.bytes = "", .then = Then::kReset}});
  HttpClient client;
  for (int i = 0; i < 5; ++i) {
    HttpRequest request = To(server, "/key?X-Amz-Signature=secret");
    request.fresh_connection = true;
    EXPECT_THAT(client.Send(request),
                Fails(Code::kUnavailable, AllOf(HasSubstr(server.url() + "/key"), Not(HasSubstr("secret")))))
        << i;
  }
  EXPECT_EQ(server.requests().size(), 5u);
}

TEST(HttpClient, NamesAServerThatIsNotThere) {
  int port;
  {
    port = HttpServer(std::vector<WireAnswer>{}).port();
  }
  HttpRequest request;
  request.url = "http://127.0.0.1:" + std::to_string(port) + "/x";
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kUnavailable, HasSubstr(std::to_string(port))));
}

TEST(HttpClient, EndsATransferThatStalls) {
  HttpServer server({{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", .then = Then::kHang}});
  HttpRequest request = To(server);
  request.stall_timeout = std::chrono::seconds(1);
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kUnavailable));
}

TEST(HttpClient, FollowsNoRedirect) {
  HttpServer server({Answer(302, "", {{"Location", "http://127.0.0.1:1/"}})});
  EXPECT_EQ(Must(HttpClient().Send(To(server))).status, 302);
}

TEST(HttpClient, RefusesABodyBeyondTheLimit) {
  HttpServer server([](const ReceivedRequest&) { return Answer(200, "12345"); });
  HttpRequest request = To(server);
  request.body_limit = 5;
  EXPECT_THAT(HttpClient().Send(request), Succeeds());
  request.body_limit = 4;
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kCorrupt, HasSubstr("more than 4 bytes")));
}

TEST(HttpClient, RefusesEndlessHeaders) {
  HttpHeaders many;
  for (int i = 0; i < 100; ++i) many.Add("X-" + std::to_string(i), std::string(1000, 'x'));
  HttpServer server({Answer(200, "", many)});
  EXPECT_THAT(HttpClient().Send(To(server)), Fails(Code::kCorrupt, HasSubstr("headers")));
}

TEST(HttpClient, GivesThePiecesOfAGoodAnswerToTheReceiverAndKeepsABadOne) {
  HttpServer server({Answer(200, "good"), Answer(404, "bad"), Answer(200, "long")});
  HttpClient client;
  std::string received;
  HttpRequest request = To(server);
  request.receive = [&](const HttpResponse& head, ByteSpan piece) -> Result<bool> {
    received += std::to_string(head.status) + ToString(piece);
    return received.size() < 20;
  };
  EXPECT_TRUE(Must(client.Send(request)).body.empty());
  EXPECT_EQ(received, "200good");
  EXPECT_EQ(AsText(Must(client.Send(request)).body), "bad");
  EXPECT_EQ(received, "200good");
  request.receive = [](const HttpResponse&, ByteSpan) -> Result<bool> { return Fail(Code::kMismatch, "not mine"); };
  EXPECT_THAT(client.Send(request), Fails(Code::kMismatch, HasSubstr("not mine")));
}

TEST(HttpClient, EndsATransferThatTheReceiverHasEnoughOf) {
  HttpServer server({{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nenough", .then = Then::kHang}});
  HttpRequest request = To(server);
  request.receive = [](const HttpResponse&, ByteSpan) -> Result<bool> { return false; };
  EXPECT_EQ(Must(HttpClient().Send(request)).status, 200);
}

TEST(HttpClient, RefusesHeadersThatWouldSplitTheRequest) {
  HttpServer server({Answer(200)});
  HttpRequest request = To(server);
  request.headers = {{"X-A", "1\r\nX-B: 2"}};
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kInvalid, HasSubstr("X-A")));
}

TEST(HttpClient, SpeaksOnlyHttp) {
  HttpRequest request;
  request.url = "file:///etc/passwd";
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kInvalid));
  request.url = "http://exa mple/";
  EXPECT_THAT(HttpClient().Send(request), Fails(Code::kInvalid));
}

TEST(UrlForMessages, HidesQueriesAndPasswords) {
  EXPECT_EQ(UrlForMessages("https://h/a/b?X-Amz-Signature=1#f"), "https://h/a/b");
  EXPECT_EQ(UrlForMessages("s3://key:secret@bucket/p"), "s3://bucket/p");
  EXPECT_EQ(UrlForMessages("http://h/a@b"), "http://h/a@b");
  EXPECT_EQ(UrlForMessages("http://h/\x1b[31m"), "http://h/\\x1b[31m");
}

}  // namespace
}  // namespace skerry
