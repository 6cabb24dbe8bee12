#include "skerry/board/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skerry/board/s3_store_testing.h"

namespace skerry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Then = WireAnswer::Then;

// "PUT If-Match: "a"", "GET": what the server was asked.
std::vector<std::string> Asked(const HttpServer& server) {
  std::vector<std::string> asked;
  for (const ReceivedRequest& request : server.requests()) {
    std::string text = request.method;
    for (const std::string name : {"If-Match", "If-None-Match", "x-goog-if-generation-match"}) {
      if (const auto value = request.headers.Find(name)) text += " " + name + ": " + *value;
    }
    asked.push_back(text);
  }
  return asked;
}

// A swap from "a" to the bytes "mine".
Result<Generation> Swap(S3Store& store, const std::optional<Generation>& expected = Generation("\"a\"")) {
  return store.CompareAndSwap("head", expected, AsBytes("mine"));
}

TEST(S3StoreSwap, IsOneConditionalPut) {
  HttpServer server({Written("\"b\""), Written("\"c\"")});
  const auto store = StoreAt(server);
  EXPECT_EQ(Must(Swap(*store)), Generation("\"b\""));
  EXPECT_EQ(Must(Swap(*store, std::nullopt)), Generation("\"c\""));
  EXPECT_THAT(Asked(server), ElementsAre("PUT If-Match: \"a\"", "PUT If-None-Match: *"));
  EXPECT_EQ(server.requests().at(0).target, "/bucket/board/head");
  EXPECT_EQ(server.requests().at(0).body, "mine");
}

TEST(S3StoreSwap, PassesTokensOnAsTheyCame) {
  for (const std::string token : {"\"abc-2\"", "W/\"weak\"", "bare", "\"\"", "\"with space\""}) {
    HttpServer server({Written(token), Written("\"next\"")});
    const auto store = StoreAt(server);
    const Generation first = Must(Swap(*store, std::nullopt));
    EXPECT_EQ(first.token(), token);
    Must(Swap(*store, first));
    EXPECT_EQ(server.requests().at(1).Header("If-Match"), token);
  }
}

TEST(S3StoreSwap, LosesWhereTheConditionFails) {
  HttpServer server({Refusal(412, "PreconditionFailed"), Holds("other", "\"z\""),  // 412, and it changed
                     Refusal(404, "NoSuchKey"), Refusal(404, "NoSuchKey"),         // gone
                     Refusal(412, "PreconditionFailed")});                         // created by another
  const auto store = StoreAt(server);
  EXPECT_THAT(Swap(*store), Fails(Code::kConflict));
  EXPECT_THAT(Swap(*store), Fails(Code::kConflict));
  EXPECT_THAT(Swap(*store, std::nullopt), Fails(Code::kConflict));
  EXPECT_EQ(server.requests().size(), 5u);
}

TEST(S3StoreSwap, TakesNoEchoOfItsBytesForSuccessWhenTheAnswerWasClear) {
  HttpServer server({Refusal(412, "PreconditionFailed"), Holds("mine", "\"z\"")});
  EXPECT_THAT(Swap(*StoreAt(server)), Fails(Code::kConflict));
}

TEST(S3StoreSwap, FindsItsOwnBytesAfterALostAnswer) {
  HttpServer server({Reset(), Holds("mine", "\"b\"")});
  EXPECT_EQ(Must(Swap(*StoreAt(server))), Generation("\"b\""));
  EXPECT_THAT(Asked(server), ElementsAre("PUT If-Match: \"a\"", "GET"));
}

TEST(S3StoreSwap, TriesAgainWhereTheLostOneDidNotArrive) {
  HttpServer server({Reset(), Holds("old", "\"a\""), Written("\"b\"")});
  EXPECT_EQ(Must(Swap(*StoreAt(server))), Generation("\"b\""));
}

TEST(S3StoreSwap, IsNotLostWhenTheFirstOneArrivesLate) {
  HttpServer server({Reset(), Holds("old", "\"a\""), Refusal(412, "PreconditionFailed"), Holds("mine", "\"b\"")});
  EXPECT_EQ(Must(Swap(*StoreAt(server))), Generation("\"b\""));
}

TEST(S3StoreSwap, LosesWhenAnotherWasFasterThanTheLostOne) {
  HttpServer server({Reset(), Holds("theirs", "\"z\"")});
  EXPECT_THAT(Swap(*StoreAt(server)), Fails(Code::kConflict));
}

TEST(S3StoreSwap, TakesServerErrorsAndConflictsForUndecided) {
  for (const int status : {409, 429, 500, 502, 503, 504}) {
    HttpServer server({Refusal(status, "X"), Holds("old", "\"a\""), Refusal(status, "X"), Holds("mine", "\"b\"")});
    EXPECT_EQ(Must(Swap(*StoreAt(server))), Generation("\"b\"")) << status;
  }
}

TEST(S3StoreSwap, CreatesUnderTheSameRules) {
  HttpServer server({Refusal(409, "ConditionalRequestConflict"), Refusal(404, "NoSuchKey"), Written("\"b\"")});
  EXPECT_EQ(Must(Swap(*StoreAt(server), std::nullopt)), Generation("\"b\""));
  HttpServer lost({Reset(), Holds("theirs", "\"z\"")});
  EXPECT_THAT(Swap(*StoreAt(lost), std::nullopt), Fails(Code::kConflict));
}

TEST(S3StoreSwap, GivesUpWithinItsBudget) {
  HttpServer server([](const ReceivedRequest& request) {
    return request.method == "PUT" ? Refusal(409, "ConditionalRequestConflict") : Holds("old", "\"a\"");
  });
  EXPECT_THAT(Swap(*StoreAt(server)), Fails(Code::kUnavailable, HasSubstr("409")));
  EXPECT_EQ(server.requests().size(), 8u) << "4 attempts, each with a look";
}

TEST(S3StoreSwap, SaysThatItIsOpenWhenItCannotLook) {
  HttpServer server([](const ReceivedRequest&) { return Reset(); });
  EXPECT_THAT(Swap(*StoreAt(server)), Fails(Code::kUnavailable, HasSubstr("is open")));
}

TEST(S3StoreSwap, UsesAConnectionOfItsOwnSoThatItArrivesAtMostOnce) {
  int answered = 0;
  HttpServer server([&](const ReceivedRequest& request) -> WireAnswer {
    if (request.method == "GET") return Holds("old", "\"a\"");
    // Takes the request and closes the connection: on a kept connection libcurl would send it again by itself.
    return ++answered == 1 ? WireAnswer{.bytes = "", .then = Then::kClose} : Written("\"b\"");
  });
  const auto store = StoreAt(server);
  Must(store->Get("head", 10));
  EXPECT_EQ(Must(Swap(*store)), Generation("\"b\""));
  EXPECT_THAT(Asked(server), ElementsAre("GET", "PUT If-Match: \"a\"", "GET", "PUT If-Match: \"a\""));
}

TEST(S3StoreSwap, StripsTheQuotesForServersThatWantThatAndRemembersIt) {
  HttpServer server([](const ReceivedRequest& request) {
    if (request.method == "GET") return Holds("old", "\"a\"");
    return request.Header("If-Match") == "a" ? Written("\"a\"") : Refusal(412, "PreconditionFailed");
  });
  const auto store = StoreAt(server);
  EXPECT_EQ(store->DescribeTokens(), "");
  EXPECT_EQ(Must(Swap(*store)), Generation("\"a\""));
  EXPECT_EQ(store->DescribeTokens(), "ETag without quotes");
  EXPECT_EQ(Must(Swap(*store)), Generation("\"a\""));
  EXPECT_THAT(Asked(server), ElementsAre("PUT If-Match: \"a\"", "GET", "PUT If-Match: a", "PUT If-Match: a"));
}

TEST(S3StoreSwap, DoesNotLookAfterALossOnceTheQuotesAreKnownToWork) {
  HttpServer server({Written("\"b\""), Refusal(412, "PreconditionFailed")});
  const auto store = StoreAt(server);
  Must(Swap(*store));
  EXPECT_THAT(Swap(*store), Fails(Code::kConflict));
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(store->DescribeTokens(), "ETag as the server sends it");
}

TEST(S3StoreSwap, LosesWhenNeitherFormOfTheTokenIsTaken) {
  HttpServer server([](const ReceivedRequest& request) {
    return request.method == "GET" ? Holds("old", "\"a\"") : Refusal(412, "PreconditionFailed");
  });
  EXPECT_THAT(Swap(*StoreAt(server)), Fails(Code::kConflict));
  EXPECT_THAT(Asked(server), ElementsAre("PUT If-Match: \"a\"", "GET", "PUT If-Match: a"));
}

TEST(S3StoreSwap, LooksWhereTheAnswerHasNoToken) {
  HttpServer server({Answer(200), Holds("mine", "\"b\""), Answer(200), Holds("theirs", "\"z\"")});
  const auto store = StoreAt(server);
  EXPECT_EQ(Must(Swap(*store)), Generation("\"b\""));
  EXPECT_THAT(Swap(*store), Fails(Code::kUnavailable));
}

TEST(S3StoreSwap, NeverWritesWithoutAConditionWhereTheServerHasNone) {
  HttpServer server([](const ReceivedRequest&) { return Refusal(501, "NotImplemented"); });
  const auto store = StoreAt(server);
  EXPECT_THAT(Swap(*store), Fails(Code::kUnsupported, HasSubstr("can't do conditional writes")));
  EXPECT_THAT(store->PutIfAbsent("k", MemorySource("x")), Fails(Code::kUnsupported));
  EXPECT_THAT(Asked(server), ElementsAre("PUT If-Match: \"a\"", "PUT If-None-Match: *"));
}

TEST(S3StoreSwap, DoesNotTakeAMissingBucketForALostRace) {
  HttpServer server([](const ReceivedRequest&) { return Refusal(404, "NoSuchBucket"); });
  const auto store = StoreAt(server);
  EXPECT_THAT(Swap(*store), Fails(Code::kInvalid, HasSubstr("there is no bucket bucket")));
  EXPECT_THAT(Swap(*store, std::nullopt), Fails(Code::kInvalid));
  EXPECT_THAT(store->PutIfAbsent("k", MemorySource("x")), Fails(Code::kInvalid));
  EXPECT_THAT(store->Get("k", 10), Fails(Code::kInvalid));
}

TEST(S3StoreSwap, IsNotLostWhileItsFirstWriteMayYetArrive) {
  HttpServer server({Written("\"a\""), Reset(), Holds("old", "\"a\""), Refusal(412, "PreconditionFailed"),
                     Holds("old", "\"a\""), Refusal(412, "PreconditionFailed"), Holds("mine", "\"b\"")});
  const auto store = StoreAt(server);
  const Generation first = Must(Swap(*store));  // so that the form of the token is known
  EXPECT_EQ(Must(Swap(*store, first)), Generation("\"b\""));
}

TEST(S3StoreSwap, RefusesAServerWithoutETags) {
  HttpServer server({Answer(200, "old")});
  const auto store = StoreAt(server);
  const Object object = Must(store->Get("head", 10));
  EXPECT_THAT(Swap(*store, object.generation), Fails(Code::kUnsupported, HasSubstr("no ETags")));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(S3StoreSwap, SpeaksGooglesDialect) {
  HttpServer server({Answer(200, "", {{"ETag", "\"e\""}, {"x-goog-generation", "1700000000000001"}}),
                     Answer(200, "", {{"ETag", "\"e\""}, {"x-goog-generation", "1700000000000002"}}),
                     Refusal(412, "PreconditionFailed")});
  const auto store = StoreAt(server, [](S3Options& options) { options.conditions = ConditionDialect::kGoogle; });
  EXPECT_FALSE(store->GenerationsRepeatWithContent());
  const Generation first = Must(Swap(*store, std::nullopt));
  EXPECT_EQ(first, Generation("1700000000000001"));
  Must(Swap(*store, first));
  EXPECT_THAT(Swap(*store, first), Fails(Code::kConflict));
  EXPECT_THAT(Asked(server),
              ElementsAre("PUT x-goog-if-generation-match: 0", "PUT x-goog-if-generation-match: 1700000000000001",
                          "PUT x-goog-if-generation-match: 1700000000000001"));
}

}  // namespace
}  // namespace skerry
