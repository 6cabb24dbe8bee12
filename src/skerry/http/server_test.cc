#include "skerry/http/server.h"

#include <future>
#include <semaphore>
#include <thread>

#include "skerry/http/client.h"
#include "skerry/http/raw_client_testing.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr milliseconds kLong{20'000};

// Says what it was asked.
ServerResponse Echo(const ServerRequest& request) {
  return {.body = fmt::format("{} {} [{}]", request.method, request.target.raw, request.body)};
}

std::unique_ptr<WebServer> Serve(WebServer::Handler handler = Echo, WebServerOptions options = {}) {
  return Must(WebServer::Listen(std::move(options), std::move(handler)));
}

HttpRequest To(const WebServer& server, const std::string& target = "/") {
  HttpRequest request;
  request.url = server.url() + target;
  return request;
}

std::string Get(const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n"; }

TEST(WebServer, HandsTheRequestToTheHandlerAndTheAnswerToTheClient) {
  ServerRequest seen;
  const auto server = Serve([&](const ServerRequest& request) {
    seen = request;
    return ServerResponse{.status = 201, .content_type = "a/b", .headers = {{"X-Answer", "42"}}, .body = "made"};
  });
  HttpRequest request = To(*server, "/a%20b?c=d");
  request.method = "PUT";
  request.headers = {{"X-Question", "?"}};
  request.body = AsBytes("body");
  const HttpResponse response = Must(HttpClient().Send(request));
  EXPECT_EQ(response.status, 201);
  EXPECT_EQ(AsText(response.body), "made");
  EXPECT_EQ(response.headers.Find("Content-Type"), "a/b");
  EXPECT_EQ(response.headers.Find("X-Answer"), "42");
  EXPECT_TRUE(response.headers.Find("Date"));
  EXPECT_EQ(seen.method, "PUT");
  EXPECT_EQ(seen.path(), "/a b");
  EXPECT_EQ(seen.Query("c"), "d");
  EXPECT_EQ(seen.Header("x-question"), "?");
  EXPECT_EQ(seen.body, "body");
  EXPECT_THAT(seen.peer, StartsWith("127.0.0.1:"));
}

TEST(WebServer, ListensOnIpv6) {
  WebServerOptions options;
  options.address.host = "::1";
  const auto server = Serve(Echo, options);
  EXPECT_THAT(server->url(), StartsWith("http://[::1]:"));
  EXPECT_EQ(AsText(Must(HttpClient().Send(To(*server, "/6"))).body), "GET /6 []");
}

TEST(WebServer, NamesTheAddressThatItCannotListenOn) {
  const auto server = Serve();
  EXPECT_THAT(WebServer::Listen({.address = server->address()}, Echo),
              Fails(Code::kUnavailable, AllOf(HasSubstr(server->address().ToString()), HasSubstr("in use"))));
  EXPECT_THAT(WebServer::Listen({.address = {.host = "192.0.2.1"}}, Echo),
              Fails(Code::kInvalid, HasSubstr("192.0.2.1:0")));
  EXPECT_THAT(WebServer::Listen({.address = {.host = "agent"}}, Echo), Fails(Code::kInvalid, HasSubstr("\"agent\"")));
}

TEST(WebServer, ListensAgainWhereOneHasJustStopped) {
  auto server = Serve();
  const ListenAddress address = server->address();
  RawClient client(address.port);  // leaves a connection that the kernel remembers
  EXPECT_TRUE(client.Send(Get("/")));
  EXPECT_THAT(client.Until("[]"), HasSubstr("200 OK"));
  server.reset();
  EXPECT_THAT(WebServer::Listen({.address = address}, Echo), Succeeds());
}

TEST(WebServer, KeepsConnectionsAndAnswersPipelinedRequestsInOrder) {
  const auto server = Serve();
  RawClient client(server->port());
  EXPECT_TRUE(client.Send(Get("/0")));
  EXPECT_THAT(client.Until("[]"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), Not(HasSubstr("Connection"))));
  std::string many;
  for (int i = 1; i <= 200; ++i) many += Get("/" + std::to_string(i));
  std::thread sender([&] { EXPECT_TRUE(client.Send(many)); });
  for (int i = 1; i <= 200; ++i) EXPECT_THAT(client.Until("[]"), EndsWith(fmt::format("GET /{} []", i)));
  sender.join();
  EXPECT_EQ(server->connections(), 1);
}

TEST(WebServer, StopsReadingWhileTooMuchIsPipelined) {
  std::binary_semaphore go(0);
  const auto server = Serve([&](const ServerRequest& request) {
    if (request.path() == "/0") go.acquire();
    return Echo(request);
  });
  RawClient client(server->port());
  std::string many;
  for (int i = 0; many.size() < (8u << 20); ++i) many += Get("/" + std::to_string(i)) + std::string(4096, '\n');
  std::thread sender([&] { client.Send(many); });
  go.release();
  for (int i = 0; i < 100; ++i) EXPECT_THAT(client.Until("[]"), EndsWith(fmt::format("GET /{} []", i)));
  EXPECT_TRUE(server->Stop(kLong));
  sender.join();
}

TEST(WebServer, ClosesWhenTheClientWishes) {
  const auto server = Serve();
  RawClient client(server->port());
  EXPECT_TRUE(client.Send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(client.Rest(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("GET /a []")));
  RawClient old(server->port());
  EXPECT_TRUE(old.Send("GET /b HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(old.Rest(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("GET /b []")));
}

TEST(WebServer, AnswersAClientThatHasEndedSending) {
  const auto server = Serve();
  RawClient client(server->port());
  EXPECT_TRUE(client.Send(Get("/a") + Get("/b") + "GET /incom"));
  client.EndSending();
  EXPECT_THAT(client.Rest(), AllOf(HasSubstr("GET /a []"), EndsWith("GET /b []")));
}

TEST(WebServer, SendsNoBodyToHead) {
  const auto server = Serve();
  RawClient client(server->port());
  EXPECT_TRUE(client.Send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" + Get("/b")));
  EXPECT_THAT(client.Until("\r\n\r\n"), HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(client.Until("[]"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("GET /b []")));
}

TEST(WebServer, GivesLeaveToSendABody) {
  const auto server = Serve();
  RawClient client(server->port());
  EXPECT_TRUE(client.Send("PUT /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.Until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_TRUE(client.Send("ab"));
  EXPECT_THAT(client.Until("]"), EndsWith("PUT /a [ab]"));
}

TEST(WebServer, TakesChunkedBodies) {
  const auto server = Serve();
  RawClient client(server->port());
  EXPECT_TRUE(
      client.Send("PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"));
  EXPECT_THAT(client.Until("]"), EndsWith("PUT /a [abc]"));
}

TEST(WebServer, TellsWhyItClosesBeforeItHasReadAll) {
  const auto server = Serve();
  const std::string megabytes(8 << 20, 'x');
  const auto answer = [&](const std::string& bytes) {
    RawClient client(server->port());
    std::thread sender([&] { client.Send(bytes); });
    std::string got = client.Rest();
    client.EndSending();
    sender.join();
    return got;
  };
  EXPECT_THAT(
      answer("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n" + megabytes),
      AllOf(StartsWith("HTTP/1.1 413 Content Too Large\r\n"), HasSubstr("Connection: close"), HasSubstr("1048576")));
  EXPECT_THAT(answer("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n" + megabytes),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(answer("GET / HTTP/1.1\r\nHost: h\r\nX: " + megabytes), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer(std::string(100'000, '\x17')), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(Must(HttpClient().Send(To(*server))).status, 200);
}

TEST(WebServer, EndsARequestThatComesTooSlowly) {
  const auto server = Serve(Echo, {.read_timeout = milliseconds(100)});
  RawClient header(server->port());
  EXPECT_TRUE(header.Send("GET / HTTP/1.1\r\nX: "));
  std::thread dripping([&] {
    // So slowly that the limit on the header is not reached first.
    while (header.Send("x")) std::this_thread::sleep_for(milliseconds(1));
  });
  EXPECT_THAT(header.Rest(), AllOf(StartsWith("HTTP/1.1 408 "), HasSubstr("Connection: close")));
  header.EndSending();
  dripping.join();
  RawClient body(server->port());
  EXPECT_TRUE(body.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcd"));
  EXPECT_THAT(body.Rest(), StartsWith("HTTP/1.1 408 "));
  RawClient silent(server->port());
  EXPECT_THAT(silent.Rest(), IsEmpty());
}

TEST(WebServer, ClosesIdleConnections) {
  const auto server = Serve(Echo, {.idle_timeout = milliseconds(50)});
  RawClient client(server->port());
  EXPECT_TRUE(client.Send(Get("/a")));
  EXPECT_THAT(client.Rest(), EndsWith("GET /a []"));
  EXPECT_EQ(client.end_errno(), 0);
}

TEST(WebServer, CutsOffAClientThatTakesNothing) {
  const std::string big(64 << 20, 'x');
  std::binary_semaphore started(0);
  const auto server = Serve(
      [&](const ServerRequest&) {
        started.release();
        return ServerResponse{.body = big};
      },
      {.write_timeout = milliseconds(100)});
  RawClient client(server->port(), 4096);
  EXPECT_TRUE(client.Send(Get("/")));
  started.acquire();
  while (server->connections() > 0) std::this_thread::yield();
  EXPECT_LT(client.Rest().size(), big.size());
  EXPECT_EQ(client.end_errno(), ECONNRESET);
}

TEST(WebServer, RefusesConnectionsBeyondItsLimit) {
  const auto server = Serve(Echo, {.max_connections = 2});
  auto first = std::make_unique<RawClient>(server->port());
  RawClient second(server->port());
  EXPECT_TRUE(first->Send(Get("/1")));
  EXPECT_TRUE(second.Send(Get("/2")));
  EXPECT_THAT(first->Until("[]"), EndsWith("GET /1 []"));
  EXPECT_THAT(second.Until("[]"), EndsWith("GET /2 []"));
  RawClient third(server->port());
  EXPECT_TRUE(third.Send(Get("/3")));
  EXPECT_THAT(third.Rest(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n")));
  third.Close();
  first.reset();
  while (server->connections() > 1) std::this_thread::yield();
  RawClient fourth(server->port());
  EXPECT_TRUE(fourth.Send(Get("/4")));
  EXPECT_THAT(fourth.Until("[]"), EndsWith("GET /4 []"));
}

TEST(WebServer, RefusesRequestsThatWouldWaitTooLong) {
  std::counting_semaphore<> started(0), go(0);
  const auto server = Serve(
      [&](const ServerRequest& request) {
        started.release();
        go.acquire();
        return Echo(request);
      },
      {.threads = 1, .max_waiting = 1});
  RawClient first(server->port());
  EXPECT_TRUE(first.Send(Get("/1")));
  started.acquire();
  RawClient second(server->port()), third(server->port());
  EXPECT_TRUE(second.Send(Get("/2")));
  while (server->waiting() == 0) std::this_thread::yield();
  EXPECT_TRUE(third.Send(Get("/3")));
  EXPECT_THAT(third.Until("waiting\n"), AllOf(StartsWith("HTTP/1.1 503 "), Not(HasSubstr("Connection: close"))));
  go.release(3);
  EXPECT_THAT(first.Until("[]"), EndsWith("GET /1 []"));
  EXPECT_THAT(second.Until("[]"), EndsWith("GET /2 []"));
  EXPECT_TRUE(third.Send(Get("/3")));
  EXPECT_THAT(third.Until("[]"), EndsWith("GET /3 []"));
}

TEST(WebServer, HandlersThatBlockHoldUpNobodyElse) {
  std::binary_semaphore started(0), go(0);
  const auto server = Serve(
      [&](const ServerRequest& request) {
        if (request.path() == "/slow") {
          started.release();
          go.acquire();
        }
        return Echo(request);
      },
      {.threads = 2});
  RawClient slow(server->port());
  EXPECT_TRUE(slow.Send(Get("/slow")));
  started.acquire();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Must(HttpClient().Send(To(*server))).status, 200);
  go.release();
  EXPECT_THAT(slow.Until("[]"), EndsWith("GET /slow []"));
}

TEST(WebServer, AnswersWhatTheHandlerThrewOrGotWrong) {
  const auto server = Serve([](const ServerRequest& request) -> ServerResponse {
    if (request.path() == "/throw") throw std::runtime_error("secret");
    if (request.path() == "/int") throw 7;
    if (request.path() == "/split") return {.headers = {{"X", "1\r\nSet-Cookie: 2"}}};
    return {.status = 7};
  });
  HttpClient client;
  for (const char* target : {"/throw", "/int", "/split", "/status"}) {
    const HttpResponse response = Must(client.Send(To(*server, target)));
    EXPECT_EQ(response.status, 500);
    EXPECT_EQ(AsText(response.body), "internal error\n");
    EXPECT_EQ(response.headers.Find("Set-Cookie"), std::nullopt);
  }
}

TEST(WebServer, ServesManyClientsAtOnce) {
  const auto server = Serve();
  HttpClient client;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string body(static_cast<size_t>(t * 1000 + i), 'x');
        HttpRequest request = To(*server, fmt::format("/{}/{}", t, i));
        request.method = "PUT";
        request.body = AsBytes(body);
        const Result<HttpResponse> response = client.Send(request);
        right += response && AsText(response->body) == fmt::format("PUT /{}/{} [{}]", t, i, body) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16 * 50);
}

}  // namespace
}  // namespace skerry
