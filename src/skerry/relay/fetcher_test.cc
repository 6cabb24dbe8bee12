#include "skerry/relay/fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "skerry/board/memory_store.h"
#include "skerry/relay/memory_file.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

constexpr uint64_t kSize = 3 * Body::kSegment;

Bytes Content(std::byte fill) { return Bytes(kSize, fill); }

// Notes what is asked for; the first request waits until it is let go.
class NotedStore : public MemoryStore {
 public:
  Status ReadRangeTelling(std::string_view key, uint64_t offset, MutableByteSpan out,
                          const std::function<void(uint64_t)>& told) override {
    asked.push_back(fmt::format("{}{}", key, offset / Body::kSegment));
    if (asked.size() == 1) {
      begun.set_value();
      released.get_future().wait();
    }
    return MemoryStore::ReadRangeTelling(key, offset, out, told);
  }

  std::vector<std::string> asked;
  std::promise<void> begun, released;
};

class FetcherTest : public testing::Test {
 protected:
  FetcherTest() {
    const Bytes a = Content(std::byte{1}), b = Content(std::byte{2});
    Must(store_->PutIfAbsent("a", MemorySource(a)));
    Must(store_->PutIfAbsent("b", MemorySource(b)));
  }
  std::shared_ptr<Body> Order(const std::string& key, const Expected& expected) {
    auto body = Body::Coming(loop_, Must(MakeMemoryFile(kSize)), kSize);
    const auto done = [this, looked_at = body.get()](const std::optional<Digest>& right) {
      const std::lock_guard lock(mutex_);
      ended_.push_back(right);
      ready_.push_back(looked_at->Ready(0));
      changed_.notify_all();
    };
    fetcher_.Begin({.key = key, .expected = expected, .body = body, .done = done});
    return body;
  }
  std::vector<std::optional<Digest>> Ended(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_.size() == count; });
    return ended_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Digest>> ended_;
  std::vector<uint64_t> ready_;  // when all had come, and nobody knew yet whether it was right
  EventLoop loop_;
  MetricRegistry registry_;
  RelayMetrics metrics_{registry_, "1"};
  std::shared_ptr<NotedStore> store_ = std::make_shared<NotedStore>();
  Upstreams upstreams_{{store_}, metrics_};
  Fetcher fetcher_{upstreams_, metrics_, /*threads=*/1};
};

TEST_F(FetcherTest, ObjectsTakeTurnsAndWhatAReaderWaitsForComesFirst) {
  const Expected a{.sha256 = Sha256::Of(Content(std::byte{1})), .digits = ""};
  const Expected b{.sha256 = Sha256::Of(Content(std::byte{2})), .digits = ""};
  const auto first = Order("a", a);
  store_->begun.get_future().wait();
  Order("b", b);
  first->Want(2 * Body::kSegment + 5);
  store_->released.set_value();
  EXPECT_THAT(Ended(2), testing::UnorderedElementsAre(a.sha256, b.sha256));
  EXPECT_THAT(store_->asked, testing::ElementsAre("a0", "a2", "b0", "a1", "b1", "b2"));
}

TEST_F(FetcherTest, KeepsTheEndOfAnObjectUntilAllOfItIsRight) {
  const auto body = Order("a", {.sha256 = Sha256::Of(Content(std::byte{2})), .digits = ""});
  store_->released.set_value();
  EXPECT_THAT(Ended(1), testing::ElementsAre(std::nullopt));
  EXPECT_THAT(ready_, testing::ElementsAre(kSize - Body::kHeldBack));
  while (body->state() == Body::State::kComing) std::this_thread::yield();
  EXPECT_EQ(body->Ready(0), 0u);
  EXPECT_EQ(body->failure().code, Code::kCorrupt);
  EXPECT_EQ(upstreams_.Look()[0].wrong, 1u);
}

TEST_F(FetcherTest, EndsWhatIsUnderWayWhenItIsStopped) {
  const auto first = Order("a", {.sha256 = {}, .digits = ""}), second = Order("b", {.sha256 = {}, .digits = ""});
  store_->begun.get_future().wait();
  std::thread release([this] { store_->released.set_value(); });
  fetcher_.Stop();
  release.join();
  EXPECT_EQ(second->state(), Body::State::kFailed);
  EXPECT_NE(first->state(), Body::State::kComing);
}

}  // namespace
}  // namespace skerry
