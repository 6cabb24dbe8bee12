#include "skerry/proxy/answer_to_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skerry {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr RequestFraming kNew{.keep = true, .chunks = true};
constexpr RequestFraming kOld{.keep = false, .chunks = false};

AnswerHead Head(std::string type, std::optional<uint64_t> length, int status = 200) {
  return {
      .status = status,
      .reason = "R",
      .headers = {{"Content-Type", std::move(type)}, {"X", "1"}, {"Connection", "Y"}, {"y", "2"}, {"Skerry-Run", "z"}},
      .has_body = status != 204,
      .length = length};
}

// The bytes that go to the client when the engine sends `pieces` at versions 7, 8, …
std::string Sent(AnswerHead head, const RequestFraming& client, bool stamped, const std::vector<std::string>& pieces) {
  AnswerToClient answer(std::move(head), client, {"r", Version(7)}, stamped);
  std::string out;
  answer.Begin(out);
  uint64_t version = 7;
  for (const std::string& piece : pieces) answer.Pass(piece, Version(version++), out);
  answer.Finish(Version(version - 1), out);
  return out;
}

TEST(AnswerToClient, PassesEndToEndHeadersAndItsOwn) {
  const std::string sent = Sent(Head("text/plain", 3), kNew, true, {"ab", "c"});
  EXPECT_THAT(sent, AllOf(StartsWith("HTTP/1.1 200 R\r\nContent-Type: text/plain\r\nX: 1\r\nContent-Length: 3\r\n"),
                          HasSubstr("Skerry-Run: r\r\n"), HasSubstr("Skerry-Version-Start: 7\r\n"),
                          Not(HasSubstr("y: 2")), Not(HasSubstr("Skerry-Run: z")), EndsWith("\r\n\r\nabc")));
}

TEST(AnswerToClient, IsChunkedWhereItsLengthIsUnknown) {
  EXPECT_THAT(Sent(Head("text/plain", {}), kNew, true, {"ab", "c"}),
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"), EndsWith("\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")));
  EXPECT_THAT(Sent(Head("text/plain", {}), kOld, true, {"ab", "c"}),
              AllOf(HasSubstr("Connection: close\r\n"), Not(HasSubstr("chunked")), EndsWith("\r\n\r\nabc")));
}

TEST(AnswerToClient, HasNoFramingWithoutABody) {
  EXPECT_THAT(Sent(Head("text/plain", {}, 204), kNew, true, {}),
              AllOf(Not(HasSubstr("Content-Length")), Not(HasSubstr("chunked")), EndsWith("\r\n\r\n")));
  AnswerHead to_head = Head("application/json", 9);
  to_head.has_body = false;
  EXPECT_THAT(Sent(to_head, kNew, true, {}), AllOf(HasSubstr("Content-Length: 9\r\n"), EndsWith("\r\n\r\n")));
}

TEST(AnswerToClient, SaysWhichVersionsMadeAJsonAnswer) {
  const std::string body = "{\"a\":1,\"weight_version_start\":7,\"weight_version_end\":8}";
  EXPECT_THAT(Sent(Head("application/json; charset=utf-8", 7), kNew, true, {"{\"a\"", ":1}"}),
              AllOf(HasSubstr(fmt::format("Content-Length: {}\r\n", body.size())),
                    HasSubstr("Skerry-Version-End: 8\r\n"), EndsWith("\r\n\r\n" + body)));
  EXPECT_THAT(Sent(Head("application/json", 7), kNew, false, {"{\"a\":1}"}), EndsWith("\r\n\r\n{\"a\":1}"));
  EXPECT_THAT(Sent(Head("application/json", 7, 400), kNew, true, {"{\"a\":1}"}), EndsWith("\r\n\r\n{\"a\":1}"));
  AnswerHead zipped = Head("application/json", 7);
  zipped.headers.Add("Content-Encoding", "gzip");
  EXPECT_THAT(Sent(zipped, kNew, true, {"{\"a\":1}"}), EndsWith("\r\n\r\n{\"a\":1}"));
}

TEST(AnswerToClient, PassesALargeJsonAnswerOnAsItComes) {
  const std::string text(AnswerToClient::kWhole, 'x');
  const std::string body = "{\"a\":\"" + text + "\"}";
  for (const std::optional<uint64_t> length : {std::optional<uint64_t>(body.size()), std::optional<uint64_t>()}) {
    const std::string sent = Sent(Head("application/json", length), kOld, true, {body});
    EXPECT_THAT(sent, AllOf(HasSubstr("Connection: close\r\n"), Not(HasSubstr("Skerry-Version-End")),
                            EndsWith("\"" + text + "\",\"weight_version_start\":7,\"weight_version_end\":7}")));
  }
}

TEST(AnswerToClient, StampsEachEvent) {
  EXPECT_THAT(
      Sent(Head("text/event-stream", {}), kOld, true,
           {"data: {\"a\":1}\n\n", "data: {\"a\":2}\n\n", "data: [DONE]\n\n"}),
      EndsWith(
          "\r\n\r\ndata: {\"a\":1,\"weight_version\":7}\n\ndata: {\"a\":2,\"weight_version\":8}\n\ndata: [DONE]\n\n"
          "event: skerry.summary\ndata: {\"run\":\"r\",\"weight_version_start\":7,\"weight_version_end\":9,"
          "\"events\":{\"7\":1,\"8\":1}}\n\n"));
}

}  // namespace
}  // namespace skerry
