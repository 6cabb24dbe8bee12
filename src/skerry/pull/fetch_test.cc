#include "skerry/pull/fetch.h"

#include "skerry/board/memory_store.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Patience whose time is counted and not spent.
struct Waiting {
  std::vector<milliseconds> pauses;
  std::function<void()> meanwhile = [] {};
  Patience patience{.limit = milliseconds(5000), .sleep = [this](milliseconds pause) {
                      pauses.push_back(pause);
                      meanwhile();
                    }};
  milliseconds Total() const {
    milliseconds total{0};
    for (const milliseconds pause : pauses) total += pause;
    return total;
  }
};

TEST(Patience, DoesNotWaitForWhatSucceedsOrCanNotBeMendedByWaiting) {
  Waiting waiting;
  EXPECT_THAT(waiting.patience.Retry("x", [] { return Status(); }), Succeeds());
  for (const Code code : {Code::kCorrupt, Code::kConflict, Code::kInvalid, Code::kMismatch, Code::kIo, Code::kNoSpace,
                          Code::kUnsupported}) {
    EXPECT_THAT(waiting.patience.Retry("x", [&]() -> Status { return Fail(code, "no"); }), Fails(code));
  }
  EXPECT_TRUE(waiting.pauses.empty());
}

TEST(Patience, WaitsLongerEachTimeUntilItIsThere) {
  Waiting waiting;
  int attempts = 0;
  EXPECT_THAT(waiting.patience.Retry("x",
                                     [&]() -> Status {
                                       if (++attempts < 4)
                                         return Fail(attempts % 2 == 0 ? Code::kNotFound : Code::kUnavailable,
                                                     "not yet");
                                       return {};
                                     }),
              Succeeds());
  EXPECT_THAT(waiting.pauses, ElementsAre(milliseconds(100), milliseconds(200), milliseconds(400)));
}

TEST(Patience, GivesUpAtItsLimitNamingWhatItWaitedFor) {
  Waiting waiting;
  int attempts = 0;
  EXPECT_THAT(waiting.patience.Retry("version 7",
                                     [&]() -> Status {
                                       ++attempts;
                                       return Fail(Code::kNotFound, "no such object");
                                     }),
              Fails(Code::kUnavailable, AllOf(HasSubstr("version 7"), HasSubstr("no such object"))));
  EXPECT_EQ(waiting.Total(), milliseconds(5000)) << "all of it and no more";
  EXPECT_EQ(attempts, static_cast<int>(waiting.pauses.size()) + 1) << "a last attempt after the last pause";
}

TEST(Patience, OfNothingTriesOnce) {
  Patience none{.limit = milliseconds(0), .sleep = [](milliseconds) { FAIL() << "slept"; }};
  EXPECT_THAT(none.Retry("x", []() -> Status { return Fail(Code::kNotFound, "no"); }), Fails(Code::kUnavailable));
}

class FetchTest : public ::testing::Test {
 protected:
  Result<uint64_t> Fetch() {
    return FetchObject(board_, object_, path_, {.patience = waiting_.patience}, Progress::None());
  }
  void Store(ByteSpan content) { Must(board_.PutObject(object_.key, MemorySource(content))); }

  Random random_{1};
  Bytes content_ = RandomBytes((9 << 20) + 5, random_);  // three chunks
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Board board_ = Must(Board::Create(store_));
  ObjectRef object_{.key = "runs/r/anchors/000000000/model.safetensors",
                    .uri = {},
                    .size = content_.size(),
                    .sha256 = Sha256::Of(content_)};
  TempDir directory_;
  Path path_ = directory_ / "sub" / "model.safetensors";
  Waiting waiting_;
};

TEST_F(FetchTest, BringsTheObjectOnce) {
  Store(content_);
  EXPECT_EQ(Must(Fetch()), content_.size());
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
  EXPECT_THAT(NamesIn(path_.parent_path()), ElementsAre("model.safetensors"));
  EXPECT_EQ(Must(Fetch()), 0u) << "it is there";
}

TEST_F(FetchTest, GoesOnWhereAnEarlierAttemptStopped) {
  Store(content_);
  std::filesystem::create_directories(path_.parent_path());
  WriteText(path_.string() + ".part", AsText(content_).substr(0, 5'000'000));
  EXPECT_EQ(Must(Fetch()), content_.size() - 5'000'000);
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
}

TEST_F(FetchTest, AWrongStartIsThrownAwayAndTheNextAttemptSucceeds) {
  Store(content_);
  WriteText(path_.string() + ".part", std::string(1000, 'x'));
  EXPECT_THAT(Fetch(), Fails(Code::kCorrupt, HasSubstr("SHA-256")));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(Fetch(), Succeeds());
  WriteText(path_.string() + ".part", std::string(content_.size() + 1, 'x'));
  std::filesystem::remove(path_);
  EXPECT_THAT(Fetch(), Succeeds()) << "a start that is too long is not looked at";
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
}

TEST_F(FetchTest, ReplacesAnotherFileOfThatName) {
  Store(content_);
  WriteText(path_, "old");
  EXPECT_THAT(Fetch(), Succeeds());
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
}

TEST_F(FetchTest, OtherBytesThanAnnouncedAreCorruptAndLeaveNothing) {
  Bytes other = content_;
  other[7'000'000] ^= std::byte{1};
  Store(other);
  EXPECT_THAT(Fetch(), Fails(Code::kCorrupt, AllOf(HasSubstr("model.safetensors"), HasSubstr(object_.sha256.Short()))));
  EXPECT_THAT(NamesIn(path_.parent_path()), ::testing::IsEmpty());
}

TEST_F(FetchTest, WaitsForWhatIsAnnouncedButNotThereYet) {
  waiting_.meanwhile = [this] {
    if (waiting_.pauses.size() == 3) Store(content_);
  };
  EXPECT_THAT(Fetch(), Succeeds());
  EXPECT_EQ(waiting_.pauses.size(), 3u);
}

TEST_F(FetchTest, GivesUpWithAnErrorThatSaysTheObject) {
  EXPECT_THAT(Fetch(), Fails(Code::kUnavailable, HasSubstr(object_.key)));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FetchTest, AFullDiskIsSaidSoAndTheNextAttemptGoesOn) {
  Store(content_);
  {
    const WithFailpoints with("file.write:errno=28@2");
    EXPECT_THAT(Fetch(), Fails(Code::kNoSpace));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_LT(Must(Fetch()), content_.size());
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
}

TEST_F(FetchTest, ReadsFilesOutsideTheBoard) {
  WriteText(directory_ / "base" / "m", AsText(content_));
  object_.key.clear();
  object_.uri = "file://" + (directory_ / "base" / "m").string();
  EXPECT_THAT(Fetch(), Succeeds());
  EXPECT_TRUE(ReadText(path_) == AsText(content_));
}

}  // namespace
}  // namespace skerry
