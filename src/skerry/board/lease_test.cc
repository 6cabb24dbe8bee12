#include "skerry/board/lease.h"

#include "skerry/board/run_testing.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

Lease SampleLease() {
  return {.run = RunNamed("grpo-1"),
          .reader = "island-7",
          .needs_from = Version(3),
          .needs_to = Version(9),
          .expires = 1'767'323'045'678,
          .time = "2026-01-02T03:04:05.678Z"};
}

TEST(Lease, ComesBackAsItWasWritten) {
  EXPECT_EQ(Must(ParseLease(Must(SerializeLease(SampleLease())))), SampleLease());
}

TEST(Lease, RefusesWhatIsMalformedByTheNameOfTheField) {
  const std::string good = ToString(Must(SerializeLease(SampleLease())));
  const auto with = [&](std::string_view part, std::string_view other) {
    std::string bad = good;
    bad.replace(bad.find(part), part.size(), other);
    return ParseLease(AsBytes(bad));
  };
  EXPECT_THAT(with(R"("needs_from":3)", R"("needs_from":10)"), Fails(Code::kCorrupt, HasSubstr("needs_from is 10")));
  EXPECT_THAT(with(R"("needs_to":9)", R"("needs_to":-1)"), Fails(Code::kCorrupt, HasSubstr("needs_to")));
  EXPECT_THAT(with(R"("expires":1767323045678)", R"("expires":"soon")"), Fails(Code::kCorrupt, HasSubstr("expires")));
  EXPECT_THAT(with(R"("reader":"island-7")", R"("reader":"a/b")"), Fails(Code::kCorrupt, HasSubstr("reader")));
  EXPECT_THAT(with(R"("format":1)", R"("format":2)"), Fails(Code::kUnsupported));
  EXPECT_THAT(ParseLease({}), Fails(Code::kCorrupt));
}

class LeaseHolderTest : public testing::Test {
 protected:
  Result<Lease> OnTheBoard(std::string_view reader) {
    SKERRY_ASSIGN(const Object object, store_->Get(LeaseKey(run_, reader), kMaxLeaseBytes));
    return ParseLease(object.bytes);
  }

  const RunId run_ = RunNamed("grpo-1");
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  Board board_ = Must(Board::Create(store_));
  TestClock clock_;
};

TEST_F(LeaseHolderTest, HoldsWhatItWasAskedForAndGivesItBack) {
  {
    LeaseHolder holder(board_, run_, "a", clock_, std::chrono::minutes(10));
    Must(holder.Hold(Version(3), Version(9)));
    const Lease lease = Must(OnTheBoard("a"));
    EXPECT_EQ(lease.needs_from, Version(3));
    EXPECT_EQ(lease.needs_to, Version(9));
    EXPECT_EQ(lease.expires, UnixMilliseconds(clock_.Now()) + 600'000);
    Must(holder.Hold(Version(5), Version(12)));
    EXPECT_EQ(Must(OnTheBoard("a")).needs_to, Version(12));
  }
  EXPECT_THAT(OnTheBoard("a"), Fails(Code::kNotFound));
}

TEST_F(LeaseHolderTest, TakesOverWhatAKilledProcessOfTheSameReaderLeft) {
  Must(store_->CompareAndSwap(LeaseKey(run_, "a"), std::nullopt, AsBytes("garbage")));
  LeaseHolder holder(board_, run_, "a", clock_);
  Must(holder.Hold(Version(1), Version(2)));
  EXPECT_EQ(Must(OnTheBoard("a")).needs_from, Version(1));
}

TEST_F(LeaseHolderTest, RenewsOnlyWhenAThirdOfTheTimeHasPassed) {
  LeaseHolder holder(board_, run_, "a", clock_, std::chrono::minutes(9));
  Must(holder.Renew());
  EXPECT_THAT(OnTheBoard("a"), Fails(Code::kNotFound)) << "nothing was held";
  Must(holder.Hold(Version(1), Version(2)));
  const uint64_t first = Must(OnTheBoard("a")).expires;
  clock_.Pass(std::chrono::minutes(2));
  Must(holder.Renew());
  EXPECT_EQ(Must(OnTheBoard("a")).expires, first);
  clock_.Pass(std::chrono::minutes(1));
  Must(holder.Renew());
  EXPECT_EQ(Must(OnTheBoard("a")).expires, first + 180'000);
}

TEST_F(LeaseHolderTest, OfAReaderThatMayNotWriteIsAnErrorThatLeavesNothing) {
  class ReadOnlyStore : public MemoryStore {
   public:
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      if (key.starts_with("runs/")) return Fail(Code::kIo, "{}: permission denied", key);
      return MemoryStore::CompareAndSwap(key, expected, bytes);
    }
    Status Delete(std::string_view key) override {
      if (key.starts_with("runs/")) ++deletes;
      return MemoryStore::Delete(key);
    }
    int deletes = 0;
  };
  const auto store = std::make_shared<ReadOnlyStore>();
  {
    LeaseHolder holder(Must(Board::Create(store)), run_, "a", clock_);
    EXPECT_THAT(holder.Hold(Version(1), Version(2)), Fails(Code::kIo, HasSubstr("permission denied")));
    Must(holder.Renew());
  }
  EXPECT_EQ(store->deletes, 0);
}

}  // namespace
}  // namespace skerry
