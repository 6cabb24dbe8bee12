#include "skerry/http/incoming_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skerry {
namespace {

using Progress = IncomingAnswer::Progress;

constexpr size_t kMaxHeader = 1000;

struct Got {
  Progress last = Progress::kNeedsMore;
  AnswerHead head;
  std::string body, left;
  bool keep = false;
};

// What an answer is seen to be when it comes in pieces of `piece` bytes; `ends`: then the connection ends.
Got Receive(std::string_view bytes, size_t piece = std::string::npos, bool to_head = false, bool ends = false) {
  IncomingAnswer incoming(kMaxHeader, to_head);
  Got got;
  while (!bytes.empty()) {
    got.left += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    size_t done = 0;
    do {
      got.last = incoming.Parse(got.left, done);
      if (got.last == Progress::kHead) got.head = incoming.TakeHead();
      if (got.last == Progress::kBody) got.body += incoming.piece();
    } while (got.last == Progress::kHead || got.last == Progress::kBody);
    got.left.erase(0, done);
    if (got.last != Progress::kNeedsMore) break;
  }
  got.left += bytes;
  if (ends && got.last == Progress::kNeedsMore) got.last = incoming.End();
  got.keep = incoming.keep();
  return got;
}

bool Refused(std::string_view bytes) {
  return Receive(bytes, std::string::npos, false, true).last == Progress::kRefused;
}

TEST(IncomingAnswer, IsTheSameInPiecesOfAnySize) {
  const std::string sized = "HTTP/1.1 201 Made so\r\nX-One: 1\r\nx-one:  two words \r\nContent-Length: 4\r\n\r\nbody";
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nbod\r\n1\r\ny\r\n0\r\nTrailer: 1\r\n\r\n";
  for (const std::string& bytes : {sized, chunked}) {
    for (size_t piece = 1; piece <= bytes.size(); ++piece) {
      const Got got = Receive(bytes, piece);
      ASSERT_EQ(got.last, Progress::kComplete) << piece;
      EXPECT_EQ(got.body, "body");
      EXPECT_EQ(got.left, "");
      EXPECT_TRUE(got.keep);
    }
  }
  const AnswerHead head = Receive(sized).head;
  EXPECT_EQ(head.status, 201);
  EXPECT_EQ(head.reason, "Made so");
  EXPECT_EQ(head.length, 4);
  EXPECT_EQ(head.headers.fields().at(1).value, "two words");
  EXPECT_EQ(Receive(chunked).head.length, std::nullopt);
}

TEST(IncomingAnswer, MayHaveAnEmptyChunkedBody) {
  const std::string bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) EXPECT_EQ(Receive(bytes, piece).last, Progress::kComplete);
}

TEST(IncomingAnswer, LeavesWhatFollowsIt) {
  EXPECT_EQ(Receive("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 2").left, "HTTP/1.1 2");
  EXPECT_EQ(Receive("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc").left, "bc");
}

TEST(IncomingAnswer, PassesOverInterimAnswers) {
  const std::string bytes =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
      "2\r\n\r\nab";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Got got = Receive(bytes, piece);
    EXPECT_EQ(got.last, Progress::kComplete);
    EXPECT_EQ(got.head.status, 200);
    EXPECT_EQ(got.head.headers.Find("Link"), std::nullopt);
    EXPECT_EQ(got.body, "ab");
  }
}

TEST(IncomingAnswer, HasNoBodyWhereNoneIsAllowed) {
  const std::string length = "Content-Length: 5\r\n\r\n";
  const Got head = Receive("HTTP/1.1 200 OK\r\n" + length, std::string::npos, /*to_head=*/true);
  EXPECT_EQ(head.last, Progress::kComplete);
  EXPECT_EQ(head.head.length, 5);
  EXPECT_TRUE(head.keep);
  EXPECT_EQ(Receive("HTTP/1.1 304 Not Modified\r\n" + length).last, Progress::kComplete);
  EXPECT_EQ(Receive("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").last, Progress::kComplete);
  EXPECT_EQ(Receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 7, /*to_head=*/true).last,
            Progress::kComplete);
}

TEST(IncomingAnswer, MayEndWithTheConnection) {
  const Got got = Receive("HTTP/1.1 200 OK\r\n\r\nall of it", 3, false, /*ends=*/true);
  EXPECT_EQ(got.last, Progress::kComplete);
  EXPECT_EQ(got.body, "all of it");
  EXPECT_FALSE(got.keep);
  EXPECT_FALSE(Receive("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na").keep);
  EXPECT_FALSE(Receive("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na").keep);
}

TEST(IncomingAnswer, IsRefusedWhereItEndsEarly) {
  EXPECT_TRUE(Refused("HTTP/1.1 200 OK\r\nContent-Le"));
  EXPECT_TRUE(Refused("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody"));
  EXPECT_TRUE(Refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"));
  EXPECT_TRUE(Refused("HTTP/1.1 100 Continue\r\n\r\n"));
}

TEST(IncomingAnswer, IsRefusedWhereItsEndIsDoubtfulOrItIsNone) {
  const auto with = [](std::string fields) {
    return Refused("HTTP/1.1 200 OK\r\n" + fields + "\r\n1\r\na\r\n0\r\n\r\n");
  };
  EXPECT_TRUE(with("Content-Length: 1\r\nContent-Length: 2\r\n"));
  EXPECT_TRUE(with("Content-Length: 1\r\nContent-Length: 1\r\n"));
  EXPECT_TRUE(with("Content-Length: 1, 1\r\n"));
  EXPECT_TRUE(with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(with("Transfer-Encoding: gzip\r\n"));
  EXPECT_TRUE(with("X: a\r\n b\r\n"));
  EXPECT_TRUE(with("X: a\nb\r\n"));
  EXPECT_TRUE(with("X: " + std::string(kMaxHeader, 'x') + "\r\n"));
  EXPECT_TRUE(Refused("HTTP/1.1 101 Switching Protocols\r\n\r\n"));
  EXPECT_TRUE(Refused("HTTP/2 200\r\n\r\n"));
  EXPECT_TRUE(Refused("220 mail.example ESMTP\r\n\r\n"));
  EXPECT_TRUE(Refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"));
}

}  // namespace
}  // namespace skerry
