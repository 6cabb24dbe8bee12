// How answers end before their time: streams, clients that leave, a server that stops.
#include <semaphore>
#include <thread>

#include "skerry/http/raw_client_testing.h"
#include "skerry/http/server.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr milliseconds kLong{20'000};
constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

std::unique_ptr<WebServer> Serve(WebServer::Handler handler, WebServerOptions options = {}) {
  return Must(WebServer::Listen(std::move(options), std::move(handler)));
}

ServerResponse Stream(std::function<bool(BodyWriter&)> stream) {
  ServerResponse response;
  response.content_type = "text/event-stream";
  response.stream = std::move(stream);
  return response;
}

TEST(WebServerStream, ArrivesPieceByPieceAndTheConnectionGoesOn) {
  std::counting_semaphore<> go(0);
  const auto server = Serve([&](const ServerRequest&) {
    return Stream([&](BodyWriter& out) {
      EXPECT_TRUE(out.Write("one\n"));
      go.acquire();
      return out.Write("") && out.Write("second\n");
    });
  });
  RawClient client(server->port());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(client.Send(kGet));
    EXPECT_THAT(client.Until("4\r\none\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"),
                      HasSubstr("Content-Type: text/event-stream\r\n")));
    go.release();
    EXPECT_EQ(client.Until("0\r\n\r\n"), "7\r\nsecond\n\r\n0\r\n\r\n");
  }
}

TEST(WebServerStream, EndsWithTheConnectionForOldClients) {
  const auto server = Serve(
      [&](const ServerRequest&) { return Stream([](BodyWriter& out) { return out.Write("a") && out.Write("b"); }); });
  RawClient client(server->port());
  EXPECT_TRUE(client.Send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(client.Rest(), EndsWith("\r\n\r\nab"));
  EXPECT_EQ(client.end_errno(), 0);
}

TEST(WebServerStream, ThatFailsIsSeenToBeIncomplete) {
  const auto server = Serve([&](const ServerRequest& request) {
    return Stream([fails = request.path() == "/false"](BodyWriter& out) {
      EXPECT_TRUE(out.Write("part"));
      if (fails) return false;
      throw std::runtime_error("x");
    });
  });
  for (const char* get : {"GET /false HTTP/1.1\r\nHost: h\r\n\r\n", "GET /throw HTTP/1.1\r\nHost: h\r\n\r\n",
                          "GET /false HTTP/1.0\r\n\r\n"}) {
    RawClient client(server->port());
    EXPECT_TRUE(client.Send(get));
    EXPECT_THAT(client.Until("part"), EndsWith("part"));
    EXPECT_THAT(client.Rest(), testing::Not(HasSubstr("0\r\n")));
    EXPECT_EQ(client.end_errno(), ECONNRESET);
  }
}

TEST(WebServerStream, NoticesThatTheClientLeft) {
  std::binary_semaphore ended(0);
  const auto server = Serve([&](const ServerRequest&) {
    return Stream([&](BodyWriter& out) {
      while (out.Write("tick\n")) {
      }
      ended.release();
      return false;
    });
  });
  for (const bool reset : {false, true}) {
    RawClient client(server->port());
    EXPECT_TRUE(client.Send(kGet));
    EXPECT_THAT(client.Until("tick"), EndsWith("tick"));
    reset ? client.Reset() : client.Close();
    ended.acquire();
  }
}

TEST(WebServerStream, GivesUpAClientThatTakesNothing) {
  std::binary_semaphore ended(0);
  const auto server = Serve(
      [&](const ServerRequest&) {
        return Stream([&](BodyWriter& out) {
          const std::string piece(1 << 20, 'x');
          while (out.Write(piece)) {
          }
          ended.release();
          return false;
        });
      },
      {.write_timeout = milliseconds(100)});
  RawClient client(server->port(), 4096);
  EXPECT_TRUE(client.Send(kGet));
  ended.acquire();
}

TEST(WebServer, TellsTheHandlerThatTheClientLeft) {
  std::binary_semaphore started(0), seen(0);
  const auto server = Serve([&](const ServerRequest& request) {
    EXPECT_FALSE(request.ClientGone());
    started.release();
    while (!request.ClientGone()) std::this_thread::yield();
    seen.release();
    return ServerResponse();
  });
  for (const bool reset : {false, true}) {
    RawClient client(server->port());
    EXPECT_TRUE(client.Send(kGet));
    started.acquire();
    reset ? client.Reset() : client.Close();
    seen.acquire();
  }
}

TEST(WebServerStop, LetsARunningHandlerAnswerAndTakesNothingElse) {
  std::binary_semaphore started(0), go(0);
  const auto server = Serve([&](const ServerRequest&) {
    started.release();
    go.acquire();
    return ServerResponse{.body = "late"};
  });
  RawClient busy(server->port()), idle(server->port());
  EXPECT_TRUE(busy.Send(std::string(kGet) + kGet));
  started.acquire();
  std::thread stopping([&] { EXPECT_TRUE(server->Stop(kLong)); });
  EXPECT_THAT(idle.Rest(), IsEmpty());
  EXPECT_THROW(RawClient(server->port()).Until("\n"), std::runtime_error);
  go.release();
  EXPECT_THAT(busy.Rest(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("\r\n\r\nlate")));
  stopping.join();
  EXPECT_EQ(server->connections(), 0);
  EXPECT_TRUE(server->Stop(kLong)) << "again does nothing";
}

TEST(WebServerStop, CutsOffWhatDoesNotEndInTime) {
  std::binary_semaphore started(0), seen(0);
  const auto server = Serve([&](const ServerRequest& request) {
    started.release();
    while (!request.ClientGone()) std::this_thread::yield();
    seen.release();
    return ServerResponse();
  });
  RawClient client(server->port());
  EXPECT_TRUE(client.Send(kGet));
  started.acquire();
  EXPECT_FALSE(server->Stop(milliseconds(50)));
  EXPECT_THAT(client.Rest(), IsEmpty());
  seen.acquire();
}

TEST(WebServerStop, TellsStreamsThatHaveNoEnd) {
  std::binary_semaphore started(0);
  const auto server = Serve([&](const ServerRequest&) {
    return Stream([&](BodyWriter& out) {
      started.release();
      while (!out.Stopping()) std::this_thread::yield();
      return out.Write("bye\n");
    });
  });
  RawClient client(server->port());
  EXPECT_TRUE(client.Send(kGet));
  started.acquire();
  EXPECT_TRUE(server->Stop(kLong));
  EXPECT_THAT(client.Rest(), EndsWith("4\r\nbye\n\r\n0\r\n\r\n"));
}

TEST(WebServerStop, EndsStreamsThatDoNotListen) {
  const auto server = Serve([&](const ServerRequest&) {
    return Stream([](BodyWriter& out) {
      while (out.Write("tick\n")) {
      }
      return true;
    });
  });
  RawClient client(server->port());
  EXPECT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.Until("tick"), EndsWith("tick"));
  EXPECT_FALSE(server->Stop(milliseconds(0)));
}

TEST(WebServerStop, DropsRequestsThatStillWaitForAThread) {
  std::binary_semaphore started(0), go(0);
  std::atomic<int> handled = 0;
  auto server = Serve(
      [&](const ServerRequest&) {
        ++handled;
        started.release();
        go.acquire();
        return ServerResponse();
      },
      {.threads = 1});
  RawClient first(server->port()), second(server->port());
  EXPECT_TRUE(first.Send(kGet));
  started.acquire();
  EXPECT_TRUE(second.Send(kGet));
  std::thread destroying([&] { server.reset(); });
  EXPECT_THAT(first.Rest(), IsEmpty());
  EXPECT_THAT(second.Rest(), IsEmpty());
  go.release();
  destroying.join();
  EXPECT_LE(handled, 1);
}

}  // namespace
}  // namespace skerry
