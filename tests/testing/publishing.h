// What tests of publishing and catching up share: a board in memory, a trainer whose model moves, and readers of it.
#ifndef SKERRY_TESTS_TESTING_PUBLISHING_H_
#define SKERRY_TESTS_TESTING_PUBLISHING_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "skerry/apply/catch_up.h"
#include "skerry/board/keys.h"
#include "skerry/board/memory_store.h"
#include "skerry/publish/init.h"
#include "skerry/publish/publisher.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/results.h"

namespace skerry {

// Lets a test do something just before a head is swapped: what happens between reading it and writing it.
class InterruptibleStore : public MemoryStore {
 public:
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    if (auto now = std::exchange(before_swap, nullptr)) now();
    return MemoryStore::CompareAndSwap(key, expected, bytes);
  }
  std::function<void()> before_swap;
};

class PublishTestBase : public ::testing::Test {
 protected:
  struct NoonClock : Clock {
    std::chrono::system_clock::time_point Now() const override {
      return std::chrono::system_clock::time_point(std::chrono::hours(12));
    }
  };

  static RunId Run(std::string_view name) { return Must(RunId::Parse(name)); }

  // The trainer's checkpoint as it is now.
  Path Export() {
    const Path directory = directory_ / fmt::format("export-{}", ++exports_);
    WriteCheckpoint(model_, directory, form_);
    return directory;
  }
  void Step(double density = 0.02) {
    model_.Nudge(density, random_);
    model_.side_files["trainer.json"] = std::to_string(++steps_);
  }

  Result<InitReceipt> Init(const RunId& run) {
    const Checkpoint base = Must(Checkpoint::Open(Export()));
    return InitRun(board_, run, base, BaseMode::kCopy, 1, clock_, Progress::None());
  }
  Result<PublishReceipt> Publish(const RunId& run, PublishOptions options = {}) {
    if (options.state_directory.empty()) options.state_directory = directory_ / ("publisher-" + run.str());
    const Path exported = Export();
    const Checkpoint checkpoint = Must(Checkpoint::Open(exported));
    auto receipt = skerry::Publish(board_, run, checkpoint, options, clock_, Progress::None());
    if (receipt) versions_[run][receipt->version.number()] = FilesOf(exported);
    return receipt;
  }
  Result<CatchUpReceipt> CatchUp(const RunId& run, const Path& directory,
                                 std::optional<uint64_t> version = std::nullopt) {
    CatchUpOptions options{
        .patience = {.limit = std::chrono::milliseconds(300), .sleep = [](std::chrono::milliseconds) {}}};
    if (version) options.version = Version(*version);
    return skerry::CatchUp(board_, run, directory, options, Progress::None());
  }
  // A fresh reader gets exactly what was published as each version.
  void ExpectEveryVersionComesOut(const RunId& run) {
    const Path reader = directory_ / "fresh";
    for (const auto& [version, files] : versions_[run]) {
      std::filesystem::remove_all(reader);
      Must(CatchUp(run, reader, version));
      EXPECT_EQ(FilesOf(reader), files) << "version " << version;
    }
  }
  Version HeadOf(const RunId& run) { return Must(board_.ReadHead(run)).head.version; }

  TempDir directory_;
  Random random_{7};
  TestModel model_ = SmallModel(random_);
  CheckpointForm form_{.shards = 2};
  NoonClock clock_;
  std::shared_ptr<InterruptibleStore> store_ = std::make_shared<InterruptibleStore>();
  Board board_ = Must(Board::Create(store_));
  const RunId run_ = Run("grpo-1");
  std::map<RunId, std::map<uint64_t, std::map<std::string, std::string>>> versions_;  // what was published, by FilesOf

 private:
  int exports_ = 0, steps_ = 0;
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_PUBLISHING_H_
