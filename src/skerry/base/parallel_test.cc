#include "skerry/base/parallel.h"

#include <latch>

#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

class ParallelTest : public ::testing::TestWithParam<int> {};

TEST_P(ParallelTest, ConsumesEveryResultInOrderOneAtATime) {
  std::vector<size_t> taken;
  std::atomic<int> inside = 0;
  for (const size_t count : {0u, 1u, 2u, 500u}) {
    taken.clear();
    Must(ParallelOrdered<size_t>(
        count, GetParam(), [](size_t i) -> Result<size_t> { return i * i; },
        [&](size_t i, size_t value) -> Status {
          EXPECT_EQ(++inside, 1);
          EXPECT_EQ(value, i * i);
          taken.push_back(i);
          --inside;
          return {};
        }));
    ASSERT_EQ(taken.size(), count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(taken[i], i);
  }
}

TEST_P(ParallelTest, NeverHasMoreThanTwiceTheThreadsWaiting) {
  std::atomic<size_t> made = 0, used = 0;
  Must(ParallelOrdered<char>(
      400, GetParam(),
      [&](size_t) -> Result<char> {
        EXPECT_LE(++made - used, 2 * static_cast<size_t>(GetParam()) + 1);
        return 'x';
      },
      [&](size_t, char) -> Status {
        ++used;
        return {};
      }));
}

TEST_P(ParallelTest, AnErrorOfTheProducerStopsTheWorkAndIsReturned) {
  std::atomic<size_t> made = 0;
  size_t taken = 0;
  EXPECT_THAT(ParallelOrdered<char>(
                  100'000, GetParam(),
                  [&](size_t i) -> Result<char> {
                    ++made;
                    if (i == 20) return Fail(Code::kCorrupt, "number 20");
                    return 'x';
                  },
                  [&](size_t i, char) -> Status {
                    EXPECT_LT(i, 20u);
                    ++taken;
                    return {};
                  }),
              Fails(Code::kCorrupt, HasSubstr("number 20")));
  EXPECT_LE(taken, 20u);
  EXPECT_LE(made, 21u + 2 * static_cast<size_t>(GetParam()));
}

TEST_P(ParallelTest, AnErrorOfTheConsumerStopsTheWorkAndNothingIsTakenAfterIt) {
  size_t taken = 0;
  std::atomic<size_t> made = 0;
  EXPECT_THAT(ParallelOrdered<char>(
                  100'000, GetParam(), [&](size_t) -> Result<char> { return ++made, 'x'; },
                  [&](size_t i, char) -> Status {
                    ++taken;
                    if (i == 9) return Fail(Code::kNoSpace, "full");
                    return {};
                  }),
              Fails(Code::kNoSpace, HasSubstr("full")));
  EXPECT_EQ(taken, 10u);
  EXPECT_LE(made, 10u + 2 * static_cast<size_t>(GetParam()));
}

TEST_P(ParallelTest, RunsAtOnceOnAllThreads) {
  std::latch all(GetParam());
  Must(ParallelFor(static_cast<size_t>(GetParam()), GetParam(), [&](size_t) -> Status {
    if (GetParam() > 1) all.arrive_and_wait();  // would hang with fewer
    return {};
  }));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, ::testing::Range(1, 9));

TEST(ParallelOrdered, CarriesValuesThatCanOnlyMove) {
  int sum = 0;
  Must(ParallelOrdered<std::unique_ptr<int>>(
      50, 3, [](size_t i) -> Result<std::unique_ptr<int>> { return std::make_unique<int>(static_cast<int>(i)); },
      [&](size_t, std::unique_ptr<int> value) -> Status {
        sum += *value;
        return {};
      }));
  EXPECT_EQ(sum, 1225);
}

}  // namespace
}  // namespace skerry
