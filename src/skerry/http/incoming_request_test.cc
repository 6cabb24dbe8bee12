#include "skerry/http/incoming_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skerry {
namespace {

using Progress = IncomingRequest::Progress;

constexpr size_t kMaxHeader = 1000, kMaxBody = 100;

class Client {
 public:
  // What the last byte of `bytes` led to, given one after the other in pieces of `piece` bytes.
  Progress Sends(std::string_view bytes, size_t piece = std::string::npos) {
    Progress progress = Progress::kNeedsMore;
    while (!bytes.empty() && progress != Progress::kRefused) {
      incoming.Append(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
      progress = Parses();
    }
    return progress;
  }
  // Up to what has to be waited for.
  Progress Parses() {
    while (true) {
      const Progress progress = incoming.Parse();
      if (progress == Progress::kHead) {
        request = incoming.TakeHead();
        incoming.LimitBody(kMaxBody);
      } else if (progress == Progress::kBody) {
        request.body += incoming.piece();
      } else {
        return progress;
      }
    }
  }
  // The complete request; what comes next is another.
  ServerRequest Takes() {
    incoming.Next();
    return std::move(request);
  }
  // The status that answers `bytes`; 0: none is needed so far, 200: they are a request.
  int Status(std::string_view bytes, size_t piece = std::string::npos) {
    const Progress progress = Sends(bytes, piece);
    if (progress == Progress::kRefused) return incoming.refusal().status;
    return progress == Progress::kComplete ? 200 : 0;
  }

  IncomingRequest incoming{kMaxHeader};
  ServerRequest request;
};

int StatusOf(std::string_view bytes) { return Client().Status(bytes); }

TEST(IncomingRequest, IsTheSameInPiecesOfAnySize) {
  const std::string bytes =
      "POST /a?b=c HTTP/1.1\r\nHost: h\r\nx-one: 1\r\nX-One:  two words \r\nContent-Length: 4\r\n\r\nbody";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    Client client;
    ASSERT_EQ(client.Sends(bytes, piece), Progress::kComplete) << piece;
    EXPECT_TRUE(client.incoming.framing().keep);
    const ServerRequest request = client.Takes();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path(), "/a");
    EXPECT_EQ(request.Query("b"), "c");
    EXPECT_EQ(request.Header("X-ONE"), "1");
    EXPECT_EQ(request.headers.fields().at(2).value, "two words");
    EXPECT_EQ(request.body, "body");
    EXPECT_EQ(client.Parses(), Progress::kNeedsMore);
  }
}

TEST(IncomingRequest, TakesChunkedBodiesWithoutTheirTrailers) {
  const std::string bytes =
      "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nAuthorization: Bearer trailer\r\n\r\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    Client client;
    ASSERT_EQ(client.Sends(bytes, piece), Progress::kComplete) << piece;
    const ServerRequest request = client.Takes();
    EXPECT_EQ(request.body, "abc0123456789");
    EXPECT_EQ(request.Header("Authorization"), std::nullopt);
  }
}

TEST(IncomingRequest, MayHaveAnEmptyChunkedBody) {
  const std::string bytes = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) EXPECT_EQ(Client().Status(bytes, piece), 200) << piece;
}

TEST(IncomingRequest, FollowsAnotherOneInTheSamePiece) {
  Client client;
  const std::string get = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n";
  ASSERT_EQ(client.Sends("POST /0 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab\r\n" + get + "GET"),
            Progress::kComplete);
  EXPECT_EQ(client.Takes().body, "ab");
  ASSERT_EQ(client.Parses(), Progress::kComplete);
  const ServerRequest second = client.Takes();
  EXPECT_EQ(second.path(), "/1");
  EXPECT_EQ(second.body, "");
  EXPECT_EQ(client.Parses(), Progress::kNeedsMore);
  EXPECT_TRUE(client.incoming.begun());
  EXPECT_EQ(client.Sends(" /2 HTTP/1.0\r\n\r\n"), Progress::kComplete);
  EXPECT_FALSE(client.incoming.framing().keep);
  EXPECT_FALSE(client.incoming.framing().chunks);
}

TEST(IncomingRequest, BeginsAfterEmptyLines) {
  Client client;
  EXPECT_EQ(client.Sends("\r\n\r\n", 1), Progress::kNeedsMore);
  EXPECT_FALSE(client.incoming.begun());
  EXPECT_EQ(client.Sends("G"), Progress::kNeedsMore);
  EXPECT_TRUE(client.incoming.begun());
}

TEST(IncomingRequest, WaitsForLeaveOnlyWhenTheBodyIsNotThereYet) {
  const std::string header = "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  Client patient;
  EXPECT_EQ(patient.Sends(header), Progress::kNeedsLeave);
  EXPECT_EQ(patient.Parses(), Progress::kNeedsMore);
  EXPECT_EQ(patient.Sends("ab"), Progress::kComplete);
  EXPECT_EQ(Client().Sends(header + "a"), Progress::kNeedsMore);
  EXPECT_EQ(Client().Sends("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
            Progress::kComplete);
  EXPECT_EQ(StatusOf("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("PUT / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n"), 417);
}

TEST(IncomingRequest, HasALongestHeader) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
  const std::string longest = begin + std::string(kMaxHeader - begin.size() - 4, 'x') + "\r\n\r\n";
  ASSERT_EQ(longest.size(), kMaxHeader);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{999}, size_t{5000}}) {
    EXPECT_EQ(Client().Status(longest, piece), 200) << piece;
    EXPECT_EQ(Client().Status(begin + "x" + longest.substr(begin.size()), piece), 431) << piece;
    EXPECT_EQ(Client().Status("GET /" + std::string(kMaxHeader, 'x'), piece), 431) << piece;
    std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
    while (many.size() < kMaxHeader) many += "a: b\r\n";
    EXPECT_EQ(Client().Status(many, piece), 431) << piece;
  }
}

TEST(IncomingRequest, MayHaveABodyBehindALongHeaderInOnePiece) {
  const std::string header =
      "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nX: " + std::string(900, 'x') + "\r\n\r\n";
  EXPECT_EQ(StatusOf(header + std::string(100, 'b') + std::string(5000, '\n')), 200);
}

TEST(IncomingRequest, HasALongestBody) {
  const auto sized = [](std::string size) {
    return "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: " + size + "\r\n\r\n";
  };
  EXPECT_EQ(StatusOf(sized("100")), 0);
  EXPECT_EQ(StatusOf(sized("101")), 413);
  EXPECT_EQ(StatusOf(sized("18446744073709551615")), 413);
  EXPECT_EQ(StatusOf(sized("18446744073709551616")), 400);
  const std::string chunked = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string fifty = "32\r\n" + std::string(50, 'x') + "\r\n";
  EXPECT_EQ(StatusOf(chunked + fifty + fifty + "0\r\n\r\n"), 200);
  EXPECT_EQ(StatusOf(chunked + fifty + fifty + "1\r\n"), 413);
  EXPECT_EQ(StatusOf(chunked + "FFFFFFFFFFFFFFFF\r\n"), 413);
}

TEST(IncomingRequest, HasALongestChunkHeaderAndTrailer) {
  const std::string chunked = "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string endless(2 * IncomingRequest::kMaxWaiting, 'x');
  EXPECT_EQ(Client().Status(chunked + "1;" + endless, 8000), 400);
  EXPECT_EQ(Client().Status(chunked + "0\r\nA: " + endless, 8000), 400);
}

TEST(IncomingRequest, IsRefusedWhereItsEndIsDoubtful) {
  const auto with = [](std::string fields) { return StatusOf("PUT / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n"); };
  EXPECT_EQ(with("Content-Length: 1\r\nContent-Length: 2\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 1\r\nContent-Length: 1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 1, 1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: +1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: \r\n"), 400);
  EXPECT_EQ(with("Content-Length: 1\r\n\tX: folded\r\n"), 400);
  EXPECT_EQ(with("X: a\nContent-Length: 1\r\n"), 400);
  EXPECT_EQ(with("X: a\rContent-Length: 1\r\n"), 400);
  EXPECT_EQ(with(std::string("X: a\0b\r\n", 8)), 400);
  EXPECT_EQ(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), 501);
  EXPECT_EQ(with("Transfer-Encoding: chunked, identity\r\n"), 501);
  EXPECT_EQ(with("Transfer-Encoding: \x0b"
                 "chunked\r\n"),
            400);
  EXPECT_EQ(with("Content-Length: -1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 1x\r\n"), 400);
  EXPECT_EQ(with("Content-Length : 1\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: gzip\r\n"), 501);
  EXPECT_EQ(with("Transfer-Encoding: gzip, chunked\r\n"), 501);
  EXPECT_EQ(StatusOf("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(IncomingRequest, IsRefusedWhereItIsMalformed) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400) << "no host";
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
  EXPECT_EQ(StatusOf("CONNECT /a HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
  EXPECT_EQ(StatusOf("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("G\x01T / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\nHost: h\n\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400) << "TLS";
  EXPECT_EQ(StatusOf("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
}

}  // namespace
}  // namespace skerry
