// What a probe says of right stores and of stores that are wrong in the ways that servers have been seen to be.
#include "skerry/board/probe.h"

#include <gtest/gtest.h>

#include <atomic>

#include "skerry/board/board.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/file_store.h"
#include "skerry/board/memory_store.h"

namespace skerry {
namespace {

constexpr ProbeOptions kSmall = {.writers = 8, .rounds = 3};

Result<ProbeReport> ProbeOf(std::shared_ptr<Store> store, ProbeOptions options = kSmall) {
  return ProbeStore({std::move(store)}, options, Progress::None());
}
std::string VerdictOf(std::shared_ptr<Store> store) {
  const Result<ProbeReport> report = ProbeOf(std::move(store));
  return report ? std::string(NameOf(report->verdict)) : CodeOf(report);
}
// "create a new object: right, …" of the checks that went wrong.
std::string WrongChecks(const ProbeReport& report) {
  std::string text;
  for (const ProbeCheck& check : report.checks) {
    if (!check.right) text += check.name + ": " + check.found + "; ";
  }
  return text;
}

// Writes without a condition, as a store does that does not know one of them.
class CarelessStore : public MemoryStore {
 public:
  CarelessStore(bool ignores_create, bool ignores_swap)
      : ignores_create_(ignores_create), ignores_swap_(ignores_swap) {}

  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    if (expected ? ignores_swap_ : ignores_create_) SKERRY_TRY(Delete(key));
    if (expected && !ignores_swap_) return MemoryStore::CompareAndSwap(key, expected, bytes);
    return MemoryStore::CompareAndSwap(key, std::nullopt, bytes);
  }

 private:
  const bool ignores_create_, ignores_swap_;
};

TEST(Probe, FindsDirectoriesAndMemoryFullAndLeavesNothingThere) {
  const ScratchDirectory scratch;
  const std::shared_ptr<Store> directory = FileStore::Open(scratch.path(), true).value();
  for (const std::shared_ptr<Store>& store : {directory, std::shared_ptr<Store>(std::make_shared<MemoryStore>())}) {
    const Result<ProbeReport> report = ProbeOf(store);
    ASSERT_TRUE(report.has_value()) << MessageOf(report);
    EXPECT_EQ(report->verdict, WriteSafety::kFull) << report->reason;
    EXPECT_EQ(report->reason, "");
    EXPECT_EQ(report->leftover, "");
    EXPECT_TRUE(report->can_swap);
    EXPECT_EQ(report->checks.size(), 5u);
    ASSERT_EQ(report->races.size(), 2u);
    for (const ProbeRace& race : report->races) {
      EXPECT_EQ(race.rounds, 3);
      EXPECT_EQ(race.one_winner, 3) << race.name;
      EXPECT_EQ(race.failed_writes, 0) << race.first_failure;
    }
    EXPECT_TRUE(store->List("").value().empty());
  }
  size_t left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(scratch.path() / "probe")) ++left;
  EXPECT_EQ(left, 0u) << "lock files and folders go as well";
}

TEST(Probe, FindsAStoreThatIgnoresEveryCondition) {
  const Result<ProbeReport> report = ProbeOf(std::make_shared<CarelessStore>(true, true));
  ASSERT_TRUE(report.has_value()) << MessageOf(report);
  EXPECT_EQ(report->verdict, WriteSafety::kNone);
  EXPECT_NE(report->reason.find("create one that exists: ignored the condition"), std::string::npos) << report->reason;
  EXPECT_TRUE(report->races.empty()) << "a race would prove nothing more";
  EXPECT_TRUE(report->can_swap);
}

TEST(Probe, FindsAStoreThatCanOnlyCreate) {
  const Result<ProbeReport> report = ProbeOf(std::make_shared<CarelessStore>(false, true));
  ASSERT_TRUE(report.has_value()) << MessageOf(report);
  EXPECT_EQ(report->verdict, WriteSafety::kCreateOnly);
  EXPECT_EQ(WrongChecks(*report),
            "swap with a stale token: ignored the condition and wrote; "
            "swap of a missing object: ignored the condition and wrote; ");
  ASSERT_EQ(report->races.size(), 1u);
  EXPECT_EQ(report->races[0].name, "create");
  EXPECT_TRUE(report->can_swap);
}

TEST(Probe, TellsAStoreThatRefusesSwapsFromOneThatIgnoresTheirCondition) {
  class NoSwaps : public MemoryStore {
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      if (expected) return Fail(Code::kUnsupported, "501 NotImplemented: If-Match");
      return MemoryStore::CompareAndSwap(key, expected, bytes);
    }
  };
  const Result<ProbeReport> report = ProbeOf(std::make_shared<NoSwaps>());
  ASSERT_TRUE(report.has_value()) << MessageOf(report);
  EXPECT_EQ(report->verdict, WriteSafety::kCreateOnly);
  EXPECT_FALSE(report->can_swap);
  EXPECT_EQ(report->reason, "swap with the right token: 501 NotImplemented: If-Match");
}

// Two steps, as in a gateway that looks and then writes: racing writers meet between them.
TEST(Probe, FindsRacesWithSeveralWinners) {
  class LookThenWrite : public MemoryStore {
   public:
    explicit LookThenWrite(bool only_swaps) : only_swaps_(only_swaps) {}
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      const bool race = AsText(bytes).find("writer") != std::string_view::npos && (expected || !only_swaps_);
      if (!race) return MemoryStore::CompareAndSwap(key, expected, bytes);
      // The first two of a round win both, whatever the order in which they come.
      if (winners_++ % kSmall.writers < 2) {
        SKERRY_TRY(Delete(key));
        (void)MemoryStore::CompareAndSwap(key, std::nullopt, bytes);
        return Generation("won");
      }
      return Fail(Code::kConflict, "lost");
    }

   private:
    const bool only_swaps_;
    std::atomic<int> winners_ = 0;
  };
  for (const bool only_swaps : {false, true}) {
    const Result<ProbeReport> report = ProbeOf(std::make_shared<LookThenWrite>(only_swaps));
    ASSERT_TRUE(report.has_value()) << MessageOf(report);
    EXPECT_EQ(report->verdict, WriteSafety::kUnsafe);
    EXPECT_EQ(report->reason,
              std::string("racing writers (") + (only_swaps ? "swap" : "create") + "): up to 2 of them won at once");
    EXPECT_EQ(report->races.size(), 2u) << "both races are run, so that the report is complete";
  }
}

TEST(Probe, FindsThatALosersBytesAreThere) {
  class LastLoserStays : public MemoryStore {
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      const bool race = expected && AsText(bytes).find("writer") != std::string_view::npos;
      Result<Generation> written = MemoryStore::CompareAndSwap(key, expected, bytes);
      if (race && !written) {
        SKERRY_TRY(Delete(key));
        (void)MemoryStore::CompareAndSwap(key, std::nullopt, bytes);
      }
      return written;
    }
  };
  const Result<ProbeReport> report = ProbeOf(std::make_shared<LastLoserStays>());
  ASSERT_TRUE(report.has_value()) << MessageOf(report);
  EXPECT_EQ(report->verdict, WriteSafety::kUnsafe);
  EXPECT_NE(report->reason.find("other bytes than the winner's"), std::string::npos) << report->reason;
}

TEST(Probe, FindsEndpointsThatDoNotSeeEachOther) {
  const auto a = std::make_shared<MemoryStore>(), b = std::make_shared<MemoryStore>();
  const Result<ProbeReport> report = ProbeStore({a, b}, kSmall, Progress::None());
  EXPECT_EQ(CodeOf(report), "mismatch");
  EXPECT_NE(MessageOf(report).find("not two ways to one board"), std::string::npos) << MessageOf(report);
  EXPECT_TRUE(a->List("").value().empty()) << "an error leaves nothing either";
}

TEST(Probe, SpreadsTheWritersOverTheEndpoints) {
  class Counted : public Store {
   public:
    explicit Counted(std::shared_ptr<Store> to) : to_(std::move(to)) {}
    std::string Describe() const override { return "counted"; }
    Result<Object> Get(std::string_view key, uint64_t limit) override { return to_->Get(key, limit); }
    Status ReadRange(std::string_view k, uint64_t at, MutableByteSpan out) override {
      return to_->ReadRange(k, at, out);
    }
    Result<ObjectInfo> Stat(std::string_view key) override { return to_->Stat(key); }
    Status PutIfAbsent(std::string_view key, const ByteSource& source) override {
      return to_->PutIfAbsent(key, source);
    }
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      racing += AsText(bytes).find("writer") != std::string_view::npos;
      return to_->CompareAndSwap(key, expected, bytes);
    }
    Status Delete(std::string_view key) override { return to_->Delete(key); }
    Result<std::vector<std::string>> List(std::string_view prefix) override { return to_->List(prefix); }
    std::atomic<int> racing = 0;

   private:
    std::shared_ptr<Store> to_;
  };
  const auto both = std::make_shared<MemoryStore>();
  const auto a = std::make_shared<Counted>(both), b = std::make_shared<Counted>(both);
  const Result<ProbeReport> report = ProbeStore({a, b}, kSmall, Progress::None());
  ASSERT_TRUE(report.has_value()) << MessageOf(report);
  EXPECT_EQ(report->verdict, WriteSafety::kFull);
  EXPECT_EQ(report->checks.size(), 10u);
  EXPECT_EQ(a->racing, 4 * 3 * 2) << "half of 8 writers, 3 rounds, 2 races";
  EXPECT_EQ(b->racing, 4 * 3 * 2);
}

// A publisher finds its own nonce and goes on: a lost reply is no lost race.
TEST(Probe, CountsAWriterWhoseReplyWasLostAsTheWinner) {
  class LosesReplies : public MemoryStore {
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      Result<Generation> written = MemoryStore::CompareAndSwap(key, expected, bytes);
      if (AsText(bytes).find("writer") == std::string_view::npos || !written) return written;
      return Fail(Code::kUnavailable, "the connection was closed");
    }
  };
  const Result<ProbeReport> report = ProbeOf(std::make_shared<LosesReplies>());
  ASSERT_TRUE(report.has_value()) << MessageOf(report);
  EXPECT_EQ(report->verdict, WriteSafety::kFull);
  EXPECT_EQ(report->races[1].one_winner, 3);
  EXPECT_EQ(report->races[1].failed_writes, 3);
}

TEST(Probe, ReportsWhyItFoundNothingOut) {
  class ReadOnly : public MemoryStore {
    Result<Generation> CompareAndSwap(std::string_view, const std::optional<Generation>&, ByteSpan) override {
      return Fail(Code::kIo, "403 AccessDenied");
    }
  };
  EXPECT_EQ(MessageOf(ProbeOf(std::make_shared<ReadOnly>())), "403 AccessDenied");

  class AllLose : public MemoryStore {
    Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                      ByteSpan bytes) override {
      if (AsText(bytes).find("writer") == std::string_view::npos) {
        return MemoryStore::CompareAndSwap(key, expected, bytes);
      }
      return Fail(Code::kConflict, "lost");
    }
  };
  EXPECT_EQ(VerdictOf(std::make_shared<AllLose>()), "unavailable");
  EXPECT_EQ(CodeOf(ProbeStore({}, kSmall, Progress::None())), "invalid");
  EXPECT_EQ(CodeOf(ProbeOf(std::make_shared<MemoryStore>(), {.writers = 1, .rounds = 1})), "invalid");
}

}  // namespace
}  // namespace skerry
