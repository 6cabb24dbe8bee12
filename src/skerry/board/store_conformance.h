// What every backend of Store must do, as one typed suite. A backend's test file says
//
//   struct MemoryBackend {
//     std::shared_ptr<Store> store = ...;         // empty and its own; made anew for each test
//     static constexpr int kRaceThreads = 32;     // of the compare-and-swap race
//     static constexpr int kRaceRounds = 200;
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreConformance, MemoryBackend);
#ifndef SKERRY_BOARD_STORE_CONFORMANCE_H_
#define SKERRY_BOARD_STORE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "skerry/board/keys.h"
#include "skerry/board/store.h"

namespace skerry {

template <typename Backend>
class StoreConformance : public testing::Test {
 protected:
  Store& store() { return *backend_.store; }

  // The object as text, or "<code>".
  std::string Text(std::string_view key) {
    const Result<Object> object = store().Get(key, 64 << 20);
    return object ? ToString(object->bytes) : "<" + std::string(CodeName(object.error().code)) + ">";
  }
  std::string Put(std::string_view key, std::string_view text) {
    return Name(store().PutIfAbsent(key, MemorySource(text)));
  }
  // Any object can be a pointer; the new token is kept in `last`.
  std::string Swap(std::string_view key, const std::optional<Generation>& expected, std::string_view text) {
    Result<Generation> swapped = store().CompareAndSwap(key, expected, AsBytes(text));
    if (swapped) last = *swapped;
    return Name(swapped);
  }
  template <typename T>
  static std::string Name(const Result<T>& result) {
    return result ? "ok" : std::string(CodeName(result.error().code));
  }

  std::optional<Generation> last;

 private:
  Backend backend_;
};
TYPED_TEST_SUITE_P(StoreConformance);

TYPED_TEST_P(StoreConformance, GivesBackWhatWasPut) {
  EXPECT_EQ(this->Put("runs/a/x.bin", "hello"), "ok");
  EXPECT_EQ(this->Text("runs/a/x.bin"), "hello");
  const Result<ObjectInfo> info = this->store().Stat("runs/a/x.bin");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->size, 5u);
}

TYPED_TEST_P(StoreConformance, TakesTheSameBytesTwiceAndKeepsTheFirst) {
  EXPECT_EQ(this->Put("k", "same"), "ok");
  EXPECT_EQ(this->Put("k", "same"), "ok");
  EXPECT_EQ(this->Put("k", "else"), "conflict");
  EXPECT_EQ(this->Put("k", "same but longer"), "conflict");
  EXPECT_EQ(this->Put("k", ""), "conflict");
  EXPECT_EQ(this->Text("k"), "same");
}

TYPED_TEST_P(StoreConformance, KeepsAnEmptyObjectApartFromNone) {
  EXPECT_EQ(this->Text("empty"), "<not_found>");
  EXPECT_EQ(this->Put("empty", ""), "ok");
  EXPECT_EQ(this->Text("empty"), "");
  EXPECT_EQ(this->Put("empty", "x"), "conflict");
}

TYPED_TEST_P(StoreConformance, ReportsAMissingKeyAsNotFound) {
  Bytes one(1);
  EXPECT_EQ(this->Name(this->store().Get("a/b", 10)), "not_found");
  EXPECT_EQ(this->Name(this->store().Stat("a/b")), "not_found");
  EXPECT_EQ(this->Name(this->store().ReadRange("a/b", 0, one)), "not_found");
  EXPECT_EQ(this->Put("a/b/c", "x"), "ok");
  EXPECT_EQ(this->Name(this->store().Get("a/b", 10)), "not_found") << "a folder is no object";
  EXPECT_EQ(this->Name(this->store().Get("a/b/c/d", 10)), "not_found") << "nothing lies below an object";
}

TYPED_TEST_P(StoreConformance, ReadsRangesAndRefusesThoseBeyondTheEnd) {
  ASSERT_EQ(this->Put("r", "0123456789"), "ok");
  const auto range = [&](uint64_t offset, size_t size) {
    Bytes out(size);
    const Status read = this->store().ReadRange("r", offset, out);
    return read ? ToString(out) : std::string(CodeName(read.error().code));
  };
  EXPECT_EQ(range(0, 10), "0123456789");
  EXPECT_EQ(range(3, 4), "3456");
  EXPECT_EQ(range(9, 1), "9");
  EXPECT_EQ(range(10, 0), "");
  EXPECT_EQ(range(5, 6), "corrupt");
  EXPECT_EQ(range(10, 1), "corrupt");
  EXPECT_EQ(range(1000, 1), "corrupt");
  EXPECT_EQ(range(UINT64_MAX, 2), "corrupt");
}

TYPED_TEST_P(StoreConformance, RefusesMoreThanTheLimit) {
  ASSERT_EQ(this->Put("k", "12345"), "ok");
  EXPECT_EQ(this->Name(this->store().Get("k", 5)), "ok");
  EXPECT_EQ(this->Name(this->store().Get("k", 4)), "corrupt");
}

TYPED_TEST_P(StoreConformance, KeepsABigObjectWhole) {
  std::string big(9 << 20, '\0');
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 2654435761u >> 13);
  ASSERT_EQ(this->Put("big", big), "ok");
  EXPECT_TRUE(this->Text("big") == big);
  Bytes tail(1 << 20);
  ASSERT_TRUE(this->store().ReadRange("big", (8 << 20) - 5, tail).has_value());
  EXPECT_TRUE(AsText(tail) == std::string_view(big).substr((8 << 20) - 5, 1 << 20));
  EXPECT_EQ(this->Put("big", big), "ok");
  big.back() ^= 1;
  EXPECT_EQ(this->Put("big", big), "conflict");
}

TYPED_TEST_P(StoreConformance, TakesKeysWithOddCharactersLiterally) {
  const std::string long_name(kMaxKeyComponentSize, 'n');
  const std::vector<std::string> keys = {"a b",
                                         "a+b",
                                         "a%20b",
                                         "a%2Fb",
                                         "q?x=1&y=2",
                                         "h#1",
                                         "it's \"quoted\"",
                                         "a;b:c",
                                         "*[x]",
                                         "~home",
                                         "naïve/ключ/鍵.bin",
                                         "A",
                                         "-rf",
                                         long_name + "/" + long_name};
  for (const std::string& key : keys) EXPECT_EQ(this->Put(key, "value of " + key), "ok") << key;
  for (const std::string& key : keys) EXPECT_EQ(this->Text(key), "value of " + key);
  Result<std::vector<std::string>> listed = this->store().List("");
  ASSERT_TRUE(listed.has_value());
  EXPECT_EQ(listed->size(), keys.size());
}

TYPED_TEST_P(StoreConformance, RefusesKeysThatCouldLeaveTheBoard) {
  for (const std::string_view key :
       {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", ".hidden", "a/.tmp-1"}) {
    EXPECT_EQ(this->Put(key, "x"), "invalid") << key;
    EXPECT_EQ(this->Swap(key, std::nullopt, "x"), "invalid") << key;
    EXPECT_EQ(this->Text(key), "<invalid>") << key;
    EXPECT_EQ(this->Name(this->store().Delete(key)), "invalid") << key;
    EXPECT_FALSE(this->store().LocalPath(key).has_value()) << key;
  }
}

TYPED_TEST_P(StoreConformance, SwapsOnlyWhatTheTokenDescribes) {
  EXPECT_EQ(this->Swap("head", Generation("no such token"), "0"), "conflict") << "nothing is there";
  EXPECT_EQ(this->Text("head"), "<not_found>");
  EXPECT_EQ(this->Swap("head", std::nullopt, "1"), "ok");
  const Generation first = *this->last;
  EXPECT_EQ(this->Swap("head", std::nullopt, "x"), "conflict") << "it exists";
  EXPECT_EQ(this->Swap("head", first, "2"), "ok");
  EXPECT_EQ(this->Swap("head", first, "x"), "conflict") << "the token is stale";
  EXPECT_EQ(this->Text("head"), "2");
  const Result<Object> read = this->store().Get("head", 10);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->generation, *this->last) << "reading and swapping give the same token";
  EXPECT_EQ(this->Swap("head", read->generation, "3"), "ok");
  EXPECT_EQ(this->Text("head"), "3");
}

TYPED_TEST_P(StoreConformance, RefusesASwapOfWhatWasDeleted) {
  ASSERT_EQ(this->Swap("head", std::nullopt, "1"), "ok");
  ASSERT_EQ(this->Name(this->store().Delete("head")), "ok");
  EXPECT_EQ(this->Swap("head", *this->last, "2"), "conflict");
  EXPECT_EQ(this->Swap("head", std::nullopt, "2"), "ok");
}

// Why heads carry a nonce: where tokens are content hashes, bytes that come back bring their token back.
TYPED_TEST_P(StoreConformance, TellsWhetherTokensComeBackWithTheBytes) {
  ASSERT_EQ(this->Swap("head", std::nullopt, "A"), "ok");
  const Generation stale = *this->last;
  ASSERT_EQ(this->Swap("head", *this->last, "B"), "ok");
  ASSERT_EQ(this->Swap("head", *this->last, "A"), "ok");
  const bool repeats = this->store().GenerationsRepeatWithContent();
  EXPECT_EQ(stale == *this->last, repeats);
  EXPECT_EQ(this->Swap("head", stale, "C"), repeats ? "ok" : "conflict");
}

TYPED_TEST_P(StoreConformance, LetsExactlyOneOfManySwapsWin) {
  if (!this->store().CompareAndSwapIsAtomic()) GTEST_SKIP() << this->store().Describe() << " does not claim this";
  const int kThreads = TypeParam::kRaceThreads;
  const int kRounds = TypeParam::kRaceRounds;
  std::optional<Generation> expected;
  std::string winner;  // written by the winner; two winners are found by the count
  std::atomic<int> winners = 0, accidents = 0;
  int bad_rounds = 0;
  const auto judge = [&]() noexcept {
    const Result<Object> now = this->store().Get("head", 100);
    const bool good = winners == 1 && now && ToString(now->bytes) == winner;
    bad_rounds += good ? 0 : 1;
    if (now) expected = now->generation;
    winners = 0;
  };
  std::barrier start(kThreads);
  std::barrier finish(kThreads, judge);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string mine = std::to_string(round) + " by " + std::to_string(t);
        start.arrive_and_wait();
        const Result<Generation> swapped = this->store().CompareAndSwap("head", expected, AsBytes(mine));
        if (swapped && ++winners == 1) winner = mine;
        if (!swapped && swapped.error().code != Code::kConflict) ++accidents;
        finish.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad_rounds, 0);
  EXPECT_EQ(accidents, 0);
}

TYPED_TEST_P(StoreConformance, LetsOneOfManyWritersOfDifferentBytesWin) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 5; ++round) {
    const std::string key = "runs/r/" + std::to_string(round) + "/deep/object";
    std::atomic<int> written = 0, conflicts = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      // Threads 2k and 2k+1 write the same bytes.
      threads.emplace_back([&, t] {
        const std::string outcome = this->Put(key, std::string(100'000, static_cast<char>('a' + t / 2)));
        written += outcome == "ok";
        conflicts += outcome == "conflict";
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(written, 2);
    EXPECT_EQ(conflicts, kThreads - 2);
    const std::string text = this->Text(key);
    EXPECT_EQ(text, std::string(100'000, text[0]));
  }
}

TYPED_TEST_P(StoreConformance, ListsByPrefixInOrder) {
  for (const std::string_view key : {"runs/a/2", "runs/a/1", "runs/a-b/1", "runs/ab", "board.json"}) {
    this->Put(key, "x");
  }
  const auto list = [&](std::string_view prefix) { return this->store().List(prefix).value(); };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(list(""), (Keys{"board.json", "runs/a-b/1", "runs/a/1", "runs/a/2", "runs/ab"}));
  EXPECT_EQ(list("runs/a/"), (Keys{"runs/a/1", "runs/a/2"}));
  EXPECT_EQ(list("runs/a"), (Keys{"runs/a-b/1", "runs/a/1", "runs/a/2", "runs/ab"}));
  EXPECT_EQ(list("runs/a/2"), (Keys{"runs/a/2"}));
  EXPECT_EQ(list("none/"), Keys{});
  EXPECT_EQ(this->store().ListNames("runs/").value(), (Keys{"a", "a-b", "ab"}));
  EXPECT_EQ(this->store().ListNames("runs/a/").value(), (Keys{"1", "2"}));
  EXPECT_EQ(this->store().ListNames("none/").value(), Keys{});
}

TYPED_TEST_P(StoreConformance, DeletesAndTakesOtherBytesAfterwards) {
  ASSERT_EQ(this->Put("a/b", "1"), "ok");
  EXPECT_EQ(this->Name(this->store().Delete("a/b")), "ok");
  EXPECT_EQ(this->Text("a/b"), "<not_found>");
  EXPECT_EQ(this->Name(this->store().Delete("a/b")), "ok") << "a missing object is no error";
  EXPECT_TRUE(this->store().List("").value().empty());
  EXPECT_EQ(this->Put("a/b", "2"), "ok");
  EXPECT_EQ(this->Text("a/b"), "2");
}

TYPED_TEST_P(StoreConformance, ShowsLocalObjectsWhereTheyLie) {
  ASSERT_EQ(this->Put("a/b", "bytes"), "ok");
  const std::optional<Path> path = this->store().LocalPath("a/b");
  if (!path) GTEST_SKIP() << this->store().Describe() << " has no local files";
  const Result<Bytes> bytes = ReadFile(*path, 100);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(AsText(*bytes), "bytes");
}

REGISTER_TYPED_TEST_SUITE_P(StoreConformance, GivesBackWhatWasPut, TakesTheSameBytesTwiceAndKeepsTheFirst,
                            KeepsAnEmptyObjectApartFromNone, ReportsAMissingKeyAsNotFound,
                            ReadsRangesAndRefusesThoseBeyondTheEnd, RefusesMoreThanTheLimit, KeepsABigObjectWhole,
                            TakesKeysWithOddCharactersLiterally, RefusesKeysThatCouldLeaveTheBoard,
                            SwapsOnlyWhatTheTokenDescribes, RefusesASwapOfWhatWasDeleted,
                            TellsWhetherTokensComeBackWithTheBytes, LetsExactlyOneOfManySwapsWin,
                            LetsOneOfManyWritersOfDifferentBytesWin, ListsByPrefixInOrder,
                            DeletesAndTakesOtherBytesAfterwards, ShowsLocalObjectsWhereTheyLie);

}  // namespace skerry

#endif  // SKERRY_BOARD_STORE_CONFORMANCE_H_
