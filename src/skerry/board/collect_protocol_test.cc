// gc beside a publisher and beside another gc, explored exhaustively with crashes and lost messages: after every step a
// way leads to the head, all of it there, and afterwards whoever comes next can publish and collect.
#include <map>

#include "skerry/board/collect.h"
#include "skerry/board/run_testing.h"
#include "tests/testing/explorer.h"

namespace skerry {
namespace {

using ::testing::HasSubstr;

const RunId kRun = RunNamed("r");

Board BoardOn(std::shared_ptr<Store> store) { return Must(Board::Open(std::move(store))); }

ExploredActor Gc(std::string name, uint64_t keep) {
  const auto body = [keep](std::shared_ptr<Store> store) -> std::string {
    const CollectOptions options{.policy = {.keep_versions = keep}, .grace = std::chrono::seconds(0)};
    const Result<CollectReceipt> collected = Collect(BoardOn(std::move(store)), options, TestClock());
    const bool expected = collected || collected.error().code == Code::kUnavailable ||  // a lost message
                          collected.error().code == Code::kConflict;                    // another gc
    if (!expected) throw Violation{"gc: " + Outcome(collected)};
    if (collected && !collected->runs.at(0).retention.problem.empty()) {
      throw Violation{"gc: " + collected->runs[0].retention.problem};
    }
    return collected ? "collected" : "failed";
  };
  return {std::move(name), body};
}

// The next version, naming an anchor that it makes before.
ExploredActor PublisherOfAnAnchor() {
  const auto body = [](std::shared_ptr<Store> store) -> std::string {
    try {
      RunOnBoard(BoardOn(std::move(store)), kRun.str()).Publish({.anchor = true});
      return "published";
    } catch (const std::runtime_error&) {
      return "failed";
    }
  };
  return {"publisher", body};
}

// What is missing on the way to the head, or "".
std::string MissingOnTheWay(const ModelStore& store) {
  const auto missing = [&](const ObjectRef& object) { return store.Find(object.key) == nullptr; };
  const Head head = Must(ParseHead(store.Find(HeadKey(kRun))->bytes));
  std::string key = head.manifest.key;
  std::vector<AnchorRef> anchors;
  for (Version version = head.version;; version = version.Previous()) {
    const ModelStore::Entry* entry = store.Find(key);
    if (entry == nullptr) return fmt::format("{} is not there, and no anchor before it", key);
    const Manifest manifest = Must(ParseManifest(entry->bytes));
    if (version == head.version) anchors = manifest.anchors;
    if (missing(manifest.tensor_digests)) return manifest.tensor_digests.key + " is not there";
    for (const AnchorRef& anchor : anchors) {
      if (anchor.version != version || missing(anchor.object)) continue;
      const Anchor document = Must(ParseAnchor(store.Find(anchor.object.key)->bytes));
      if (!missing(document.parts[0].object)) return "";
    }
    for (const Edge& edge : manifest.edges) {
      if (missing(edge.parts[0].object)) return edge.parts[0].object.key + " is not there";
    }
    if (version.IsBase()) return "no complete anchor leads to the head";
    key = ManifestKey(kRun, version.Previous());
  }
}

class CollectProtocol : public testing::Test {
 protected:
  // Versions 0 and 1, both with an anchor, and what a killed publisher left of version 1.
  static ModelStore Start() {
    const auto store = std::make_shared<ModelStore>();
    const BoardInfo info{.id = "model", .writes = WriteSafety::kFull};
    Must(store->PutIfAbsent(BoardKey(), MemorySource(Must(SerializeBoardInfo(info)))));
    RunOnBoard run(BoardOn(store), kRun.str());
    run.PublishTo(0);
    run.LeaveDelta();
    run.Publish({.anchor = true});
    return *store;
  }
  static Exploration Explore(std::vector<ExploredActor> actors, int faults) {
    Explorer explorer(Start(), std::move(actors), faults);
    std::map<decltype(Digest::bytes), std::string> checked, ended;
    explorer.check_step = [&](const ExploredState&, const ExploredState& after) {
      const auto [at, first] = checked.try_emplace(after.store.fingerprint().bytes);
      if (first) at->second = MissingOnTheWay(after.store);
      return at->second;
    };
    explorer.check_end = [&](const ExploredState& state) {
      const auto [at, first] = ended.try_emplace(state.store.fingerprint().bytes);
      if (first) at->second = GoOn(state.store);
      return at->second;
    };
    const Exploration found = explorer.Explore();
    fmt::print("[ explored ] {} states, {} steps, {:.3g} schedules\n", found.states, found.steps, found.schedules);
    return found;
  }

 private:
  // Publishes, collects, and says what is wrong then.
  static std::string GoOn(const ModelStore& state) {
    const auto store = std::make_shared<ModelStore>(state);
    RunOnBoard(BoardOn(store), kRun.str()).Publish({.anchor = true});
    if (Gc("last", 1).body(store) != "collected") return "a gc at the end failed";
    const std::string missing = MissingOnTheWay(*store);
    if (!missing.empty()) return "in the end: " + missing;
    const size_t left = Must(store->List(VersionPrefix(kRun, Version(0)))).size() +
                        Must(store->List(VersionPrefix(kRun, Version(1)))).size();
    return left == 0 ? "" : "versions 0 and 1 are still there in the end";
  }
};

TEST_F(CollectProtocol, AlwaysLeavesAWayToTheHeadBesideAPublisherAndAnythingThatFails) {
  const Exploration found = Explore({Gc("gc", 1), PublisherOfAnAnchor()}, 1);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.schedules, 1e4);
}

TEST_F(CollectProtocol, AlwaysLeavesAWayToTheHeadBesideAnotherGc) {
  const Exploration found = Explore({Gc("gc", 1), Gc("other gc", 2)}, 0);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.schedules, 1e4);
}

TEST_F(CollectProtocol, AGcThatRemovesTheNewestAnchorIsFound) {
  const auto careless = [](std::shared_ptr<Store> store) -> std::string {
    for (const std::string& key : Must(store->List(AnchorPrefix(kRun, Version(1))))) Must(store->Delete(key));
    Must(store->Delete(ManifestKey(kRun, Version(0))));
    return "collected";
  };
  EXPECT_THAT(Explore({{"careless gc", careless}}, 0).violation, HasSubstr("000000000/manifest.json is not there"));
}

}  // namespace
}  // namespace skerry
