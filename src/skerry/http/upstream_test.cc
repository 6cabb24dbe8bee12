#include "skerry/http/upstream.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <semaphore>
#include <thread>

#include "skerry/http/server.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using testing::HasSubstr;

// What a call led to, as text: "200 body end", "failed 1: why".
class Recorder : public UpstreamCall::Listener {
 public:
  void OnAnswerHead(AnswerHead head) override { text += fmt::format("{} ", head.status); }
  void OnAnswerBody(std::string_view piece) override { text += piece; }
  void OnAnswerPause() override {}
  void OnAnswerEnd() override { End(" end"); }
  void OnCallFailed(UpstreamFailure kind, const std::string& why) override {
    failure = kind;
    End("failed: " + why);
  }
  void OnCallDrained() override {}
  std::string Wait() {
    ended_.acquire();
    return text;
  }

  std::string text;
  std::optional<UpstreamFailure> failure;

 private:
  void End(const std::string& how) {
    text += how;
    ended_.release();
  }
  std::binary_semaphore ended_{0};
};

UpstreamOptions To(const WebServer& server) { return Must(ParseUpstreamUrl(server.url())); }

class UpstreamTest : public testing::Test {
 protected:
  std::string Ask(Upstream& upstream, const std::string& path = "/", bool fresh = false) {
    Recorder recorder;
    loop.Do([&] { Begin(upstream, recorder, path, fresh); });
    const std::string text = recorder.Wait();
    failure = recorder.failure;
    return text;
  }
  std::shared_ptr<UpstreamCall> Begin(Upstream& upstream, Recorder& recorder, const std::string& path, bool fresh) {
    const auto call = upstream.Call(recorder, /*to_head=*/false, fresh);
    call->Send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    return call;
  }
  size_t Idle(Upstream& upstream) {
    size_t idle = 0;
    loop.Do([&] { idle = upstream.idle(); });
    return idle;
  }

  EventLoop loop;
  std::optional<UpstreamFailure> failure;
};

TEST_F(UpstreamTest, KeepsItsConnections) {
  const auto server =
      Must(WebServer::Listen({}, [](const ServerRequest& request) { return ServerResponse{.body = request.path()}; }));
  Upstream upstream(loop, To(*server));
  for (const char* path : {"/a", "/b", "/c"}) EXPECT_EQ(Ask(upstream, path), std::string("200 ") + path + " end");
  EXPECT_EQ(server->connections(), 1);
  EXPECT_EQ(Idle(upstream), 1);
  EXPECT_EQ(Ask(upstream, "/d", /*fresh=*/true), "200 /d end");
  EXPECT_EQ(Idle(upstream), 2);
}

TEST_F(UpstreamTest, FindsAServerByItsName) {
  const auto server = Must(WebServer::Listen({}, [](const ServerRequest&) { return ServerResponse{.body = "x"}; }));
  UpstreamOptions options = To(*server);
  options.host = "localhost";
  Upstream upstream(loop, options);
  EXPECT_EQ(Ask(upstream), "200 x end");
}

TEST_F(UpstreamTest, NoticesThatAnIdleConnectionWasClosed) {
  const auto server = Must(WebServer::Listen({.idle_timeout = std::chrono::milliseconds(1)},
                                             [](const ServerRequest&) { return ServerResponse{.body = "x"}; }));
  Upstream upstream(loop, To(*server));
  EXPECT_EQ(Ask(upstream), "200 x end");
  while (Idle(upstream) > 0) std::this_thread::yield();
  EXPECT_EQ(Ask(upstream), "200 x end");
}

TEST_F(UpstreamTest, NamesTheServerThatDoesNotAnswer) {
  UpstreamOptions options;
  {
    const auto server = Must(WebServer::Listen({}, [](const ServerRequest&) { return ServerResponse(); }));
    options = To(*server);
  }
  Upstream upstream(loop, options);
  EXPECT_THAT(Ask(upstream), HasSubstr(fmt::format("http://127.0.0.1:{}: Connection refused", options.port)));
  EXPECT_EQ(failure, UpstreamFailure::kUnreachable);
  options.host = "nowhere.invalid";
  Upstream nowhere(loop, options);
  EXPECT_THAT(Ask(nowhere), HasSubstr("http://nowhere.invalid"));
}

TEST_F(UpstreamTest, GivesUpAServerThatIsSilent) {
  std::binary_semaphore go(0);
  const auto server = Must(WebServer::Listen({}, [&](const ServerRequest&) {
    go.acquire();
    return ServerResponse();
  }));
  UpstreamOptions options = To(*server);
  options.silence_timeout = std::chrono::milliseconds(20);
  Upstream upstream(loop, options);
  EXPECT_THAT(Ask(upstream), HasSubstr("nothing came for 0.02 s"));
  EXPECT_EQ(failure, UpstreamFailure::kSilent);
  go.release();
}

TEST_F(UpstreamTest, LetsTheServerSeeThatNobodyWaits) {
  std::binary_semaphore begun(0), gone(0);
  const auto server = Must(WebServer::Listen({}, [&](const ServerRequest& request) {
    begun.release();
    while (!request.ClientGone()) std::this_thread::yield();
    gone.release();
    return ServerResponse();
  }));
  Upstream upstream(loop, To(*server));
  Recorder recorder;
  std::shared_ptr<UpstreamCall> call;
  loop.Do([&] { call = Begin(upstream, recorder, "/", false); });
  begun.acquire();
  loop.Do([&] { call->Cancel(); });
  gone.acquire();
  EXPECT_EQ(recorder.text, "");
}

TEST_F(UpstreamTest, ReadsNothingThatIsNotWanted) {
  const std::string big(8 << 20, 'x');
  const auto server = Must(WebServer::Listen({}, [&](const ServerRequest&) { return ServerResponse{.body = big}; }));
  Upstream upstream(loop, To(*server));
  Recorder recorder;
  std::shared_ptr<UpstreamCall> call;
  loop.Do([&] {
    call = Begin(upstream, recorder, "/", false);
    call->WantAnswer(false);
  });
  size_t untold = 0;
  while (untold == 0) loop.Do([&] { untold = call->Untold(); });
  EXPECT_EQ(recorder.text, "");
  loop.Do([&] { call->WantAnswer(true); });
  EXPECT_EQ(recorder.Wait(), "200 " + big + " end");
}

// A chunk ends with a line end that is read together with the next chunk's size.
TEST_F(UpstreamTest, HasNothingUntoldBetweenTwoChunks) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  Upstream upstream(loop, {.host = "127.0.0.1", .port = acceptor.local_endpoint().port()});
  Recorder recorder;
  std::shared_ptr<UpstreamCall> call;
  loop.Do([&] { call = Begin(upstream, recorder, "/", false); });
  boost::asio::ip::tcp::socket server = acceptor.accept();
  const auto send = [&](std::string bytes) { boost::asio::write(server, boost::asio::buffer(bytes)); };
  const auto await = [&](const std::string& text) {
    for (std::string have; have != text;) loop.Do([&] { have = recorder.text; });
  };
  send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  await("200 abc");
  loop.Do([&] { EXPECT_EQ(call->Untold(), 0); });
  send("4\r\nde");
  await("200 abcde");
  loop.Do([&] { EXPECT_EQ(call->Untold(), 0); });
  send("fg\r\n0\r\n\r\n");
  EXPECT_EQ(recorder.Wait(), "200 abcdefg end");
}

TEST(UpstreamUrl, IsAHostAndAPort) {
  const auto parse = [](const std::string& url) {
    const UpstreamOptions options = Must(ParseUpstreamUrl(url));
    return fmt::format("{} {}", options.host, options.port);
  };
  EXPECT_EQ(parse("http://127.0.0.1:8000"), "127.0.0.1 8000");
  EXPECT_EQ(parse("http://user:pass@host:8000/?reload=trust"), "host 8000");
  EXPECT_EQ(parse("http://[::1]:8000"), "::1 8000");
  EXPECT_EQ(parse("http://[::1]"), "::1 80");
  EXPECT_EQ(parse("http://host/"), "host 80");
  for (const char* url :
       {"https://h", "h:80", "http://", "http://h:0", "http://h:65536", "http://h:x", "http://h/base"}) {
    EXPECT_THAT(ParseUpstreamUrl(url), Fails(Code::kInvalid, HasSubstr("can't be forwarded"))) << url;
  }
  EXPECT_THAT(ParseUpstreamUrl("http://user:secret@h/base"), Fails(Code::kInvalid, testing::Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace skerry
