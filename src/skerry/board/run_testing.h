// Runs on a board for the tests of retention, without weights: every object is there, and its content is its own name.
#ifndef SKERRY_BOARD_RUN_TESTING_H_
#define SKERRY_BOARD_RUN_TESTING_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skerry/base/clock.h"
#include "skerry/board/board.h"
#include "skerry/board/board_testing.h"
#include "skerry/board/memory_store.h"
#include "tests/testing/results.h"

namespace skerry {

// Time stands still until a test moves it.
class TestClock : public Clock {
 public:
  std::chrono::system_clock::time_point Now() const override { return now_; }
  void Pass(std::chrono::milliseconds time) { now_ += time; }

 private:
  std::chrono::system_clock::time_point now_{std::chrono::hours(24 * 365 * 50)};
};

// How a version is published.
struct TestStep {
  bool anchor = false;               // made before the version and named by it
  std::vector<uint64_t> skips = {};  // versions from which a skip leads here
  std::optional<ForkPoint> fork = {};
};

// One publisher of one run.
class RunOnBoard {
 public:
  RunOnBoard(const Board& board, std::string_view name) : board_(board), run_(RunNamed(name)) {}

  // The next version. 0 has an anchor unless it is a fork.
  Version Publish(const TestStep& step = {}) {
    std::optional<HeadAt> at;
    if (Result<HeadAt> head = board_.ReadHead(run_)) at = *std::move(head);
    const Version version = at ? at->head.version.Next() : Version(0);
    Manifest manifest = SampleManifest(run_, version, {});
    if (at) manifest.parent = at->head.manifest.sha256;
    manifest.model = ModelOf(step.fork ? step.fork->run : run_, step.fork ? step.fork->version : version);
    manifest.fork = step.fork;
    if (at) anchors_ = Must(board_.ReadManifest(at->head, at->head.version)).anchors;
    manifest.anchors = anchors_;
    if (step.anchor || (!at && !step.fork)) {
      anchors_.insert(anchors_.begin(), PutAnchor(version));
      manifest.anchors = anchors_;
    }
    manifest.tensor_digests =
        Put(version, "digests", [&](const Digest& d) { return TensorDigestsKey(run_, version, d); });
    manifest.edges.clear();
    if (at) {
      manifest.edges.push_back(EdgeFrom(at->head.version, version, at->head.model));
      for (const uint64_t from : step.skips) {
        const Manifest old = Must(board_.ReadManifest(at->head, Version(from)));
        manifest.edges.push_back(EdgeFrom(old.version, version, old.model));
      }
    }
    const StagedManifest staged = Must(board_.StageManifest(std::move(manifest)));
    std::optional<SettledHead> current;
    if (at) current = Must(board_.Settle(*at));
    Must(board_.MoveHead(current, SampleHead(staged, at ? at->head.sequence + 1 : 1), staged));
    Must(board_.Settle(Must(board_.ReadHead(run_))));
    return version;
  }
  // Up to `version`, with an anchor at every multiple of `anchor_every` (0: none) and a skip of 8 at those of 8.
  void PublishTo(uint64_t version, uint64_t anchor_every = 0) {
    const Result<HeadAt> head = board_.ReadHead(run_);
    for (uint64_t next = head ? head->head.version.number() + 1 : 0; next <= version; ++next) {
      TestStep step{.anchor = anchor_every != 0 && next % anchor_every == 0};
      const bool has_eight_before = next >= 8 && next % 8 == 0;
      if (has_eight_before && board_.ReadSettledManifest(run_, Version(next - 8))) step.skips = {next - 8};
      Publish(step);
    }
  }
  void ForkOf(const RunOnBoard& origin, uint64_t version) {
    const Head head = Must(board_.ReadHead(origin.run_)).head;
    const Digest sha256 =
        version == head.version.number()
            ? head.manifest.sha256
            : Sha256::Of(Must(board_.store().Get(ManifestKey(origin.run_, Version(version)), 1 << 20)).bytes);
    Publish({.fork = ForkPoint{.run = origin.run_, .version = Version(version), .manifest = sha256}});
  }
  // What a publisher that was killed leaves of the next version, or of an anchor.
  std::string LeaveDelta() {
    const Version next = Must(board_.ReadHead(run_)).head.version.Next();
    return Put(next, "a delta of a killed publisher", [&](const Digest& d) { return DeltaKey(run_, next, 0, d); }).key;
  }
  std::string LeaveManifest() {
    const Head head = Must(board_.ReadHead(run_)).head;
    return Must(board_.StageManifest(SampleManifest(run_, head.version.Next(), head.manifest.sha256))).ref().key;
  }
  std::string LeaveAnchorPart(uint64_t version) {
    return Put(Version(version), "a part of a killed publisher",
               [&](const Digest& d) { return AnchorPartKey(run_, Version(version), 7, d); })
        .key;
  }

  const RunId& id() const { return run_; }
  Head head() const { return Must(board_.ReadHead(run_)).head; }
  const std::vector<AnchorRef>& anchors() const { return anchors_; }

 private:
  static Digest ModelOf(const RunId& run, Version version) {
    return Sha256::Of(fmt::format("model of {} {}", run, version));
  }
  template <typename KeyOf>
  ObjectRef Put(Version version, std::string_view what, const KeyOf& key_of) {
    const std::string content = fmt::format("{} of {} {}", what, run_, version);
    ObjectRef object{.key = {}, .uri = {}, .size = content.size(), .sha256 = Sha256::Of(content)};
    object.key = key_of(object.sha256);
    Must(board_.PutObject(object.key, MemorySource(content)));
    return object;
  }
  Edge EdgeFrom(Version from, Version to, const Digest& model) {
    const bool delta = from.Next() == to;
    const auto key_of = [&](const Digest& d) {
      return delta ? DeltaKey(run_, to, 0, d) : SkipKey(run_, to, from, 0, d);
    };
    return {.kind = delta ? "delta" : "skip",
            .from = from,
            .base_model = model,
            .parts = {{.object = Put(to, fmt::format("patch from {}", from), key_of), .tensors = {}}}};
  }
  AnchorRef PutAnchor(Version version) {
    const auto key_of = [&](const Digest& d) { return AnchorPartKey(run_, version, 0, d); };
    return Must(board_.PutAnchor({.run = run_,
                                  .version = version,
                                  .model = ModelOf(run_, version),
                                  .files = {},
                                  .parts = {{.object = Put(version, "all weights", key_of), .tensors = {}}}}));
  }

  Board board_;
  RunId run_;
  std::vector<AnchorRef> anchors_;
};

}  // namespace skerry

#endif  // SKERRY_BOARD_RUN_TESTING_H_
