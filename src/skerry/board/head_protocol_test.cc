// The head protocol, explored exhaustively: publishers that race, take over, crash and come back, and a reader, over
// the real code of Board. What must hold is checked after every step of every schedule; docs/board-protocol.md states
// it.
#include <cstdlib>
#include <map>

#include "skerry/board/board.h"
#include "skerry/board/board_testing.h"
#include "tests/testing/explorer.h"
#include "tests/testing/results.h"

namespace skerry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const RunId kRun = RunNamed("r");

struct PublisherPlan {
  std::string name;
  int versions = 1;
  int attempts = 2;           // in all: a failed one is repeated from the start, as by another call of the program
  bool claims_first = false;  // takes over without a new version, then publishes
  bool data_last = false;     // breaks the rule that the head moves last
};

// One publisher's way through the protocol. Everything that is random otherwise comes from its name and the attempt.
class ModelPublisher {
 public:
  ModelPublisher(PublisherPlan plan, std::shared_ptr<Store> store)
      : plan_(std::move(plan)), board_(Must(Board::Open(std::move(store)))) {}

  // "published:<SHA-256>", "lost:<SHA-256>" for each manifest whose fate it knows.
  std::string Run() {
    std::string outcome = "ended";
    for (int published = 0; published < plan_.versions && attempt_ < plan_.attempts; ++attempt_) {
      Digest manifest;
      const Status status = PublishOne(manifest);
      if (status) ++published;
      if (status) outcome += " published:" + manifest.Hex();
      if (!status && status.error().code == Code::kConflict) return outcome + " lost:" + manifest.Hex();
      // kUnavailable: it may be published or not. Anything else no publisher should meet.
      if (!status && status.error().code != Code::kUnavailable) throw Violation{plan_.name + ": " + Outcome(status)};
    }
    return outcome;
  }

 private:
  Status PublishOne(Digest& staged_as) {
    SKERRY_ASSIGN(const HeadAt at, board_.ReadHead(kRun));
    SKERRY_ASSIGN(SettledHead current, board_.Settle(at));
    if (plan_.claims_first && at.head.publisher != plan_.name) {
      SKERRY_ASSIGN(current, Claim(current));
    }
    const Head& now = current.head();
    Manifest manifest = SampleManifest(kRun, now.version.Next(), now.manifest.sha256);
    const std::string data = fmt::format("patch of {} {}", plan_.name, attempt_);
    ObjectRef object{.key = {}, .uri = {}, .size = data.size(), .sha256 = Sha256::Of(data)};
    object.key = DeltaKey(kRun, manifest.version, 0, object.sha256);
    manifest.tensor_digests = object;
    manifest.edges[0].parts[0].object = object;
    manifest.time = data;
    const auto put = [&] { return board_.PutObject(object.key, MemorySource(data)); };
    if (!plan_.data_last) SKERRY_TRY(put());
    SKERRY_ASSIGN(const StagedManifest staged, board_.StageManifest(std::move(manifest)));
    staged_as = staged.ref().sha256;
    const Head next = Follow(now, staged.manifest().version, staged.ref(), "publish");
    SKERRY_ASSIGN(const Generation generation, board_.MoveHead(current, next, staged));
    if (plan_.data_last) SKERRY_TRY(put());
    // The version is out, whatever becomes of its alias.
    (void)board_.Settle({next, generation}, &staged.manifest());
    return {};
  }
  Result<SettledHead> Claim(const SettledHead& current) {
    const Head& now = current.head();
    SKERRY_ASSIGN(const Manifest manifest, board_.ReadManifest(now, now.version));
    SKERRY_ASSIGN(const StagedManifest staged, board_.StageManifest(manifest));
    const Head next = Follow(now, now.version, now.manifest, "claim");
    SKERRY_ASSIGN(const Generation generation, board_.MoveHead(current, next, staged));
    return board_.Settle({next, generation}, &manifest);
  }
  Head Follow(const Head& now, Version version, const ManifestRef& manifest, std::string_view what) const {
    Head next = now;
    next.epoch = now.publisher == plan_.name ? now.epoch : now.epoch + 1;
    next.version = version;
    next.manifest = manifest;
    next.model = Sha256::Of("model " + version.ToString());  // as SampleManifest has it
    next.publisher = plan_.name;
    next.nonce = fmt::format("{}-{}-{}", plan_.name, what, attempt_);
    next.sequence = now.sequence + 1;
    return next;
  }

  const PublisherPlan plan_;
  const Board board_;
  int attempt_ = 0;
};

ExploredActor Publisher(const PublisherPlan& plan) {
  return {plan.name, [plan](std::shared_ptr<Store> store) { return ModelPublisher(plan, std::move(store)).Run(); }};
}

// Reads the head `times` times, each time all of its version and the manifest before it.
ExploredActor Reader(int times) {
  const auto body = [times](std::shared_ptr<Store> store) -> std::string {
    const Board board = Must(Board::Open(std::move(store)));
    const auto demand = [](const auto& read) {
      // Lost messages are no fault of the board's; anything else that is not there or wrong is.
      const bool fine = read || (read.error().code == Code::kUnavailable &&
                                 read.error().message.find("not there") == std::string::npos);
      if (!fine) throw Violation{"the reader: " + Outcome(read)};
      return read.has_value();
    };
    Version version;
    uint64_t sequence = 0;
    for (int i = 0; i < times; ++i) {
      const Result<HeadAt> at = board.ReadHead(kRun);
      if (!demand(at)) continue;
      const Head& head = at->head;
      if (head.version < version || head.sequence < sequence) {
        throw Violation{fmt::format("the reader saw version {} (write {}) after {} (write {})", head.version,
                                    head.sequence, version, sequence)};
      }
      version = head.version;
      sequence = head.sequence;
      const Result<Manifest> manifest = board.ReadManifest(head, version);
      if (!demand(manifest) || version.IsBase()) continue;
      demand(board.ReadObject(manifest->edges[0].parts[0].object, 1 << 20));
      demand(board.ReadManifest(head, version.Previous()));
    }
    return "ended";
  };
  return {"reader", body};
}

// What the store holds, as docs/board-protocol.md says, without Board.
class Invariants {
 public:
  // Whether the head names a durable chain of versions, and no alias is anything else. Returns what is wrong.
  std::string OfStore(const ModelStore& store) {
    const auto [at, first] = checked_.try_emplace(store.fingerprint().bytes);
    if (first) at->second = Check(store);
    return at->second;
  }
  std::string OfStep(const ExploredState& before, const ExploredState& after) {
    if (before.store.fingerprint() == after.store.fingerprint()) return "";
    const ModelStore::Entry* old_entry = before.store.Find(HeadKey(kRun));
    const ModelStore::Entry* new_entry = after.store.Find(HeadKey(kRun));
    if (new_entry == nullptr) return "the head is gone";
    for (const auto& [key, entry] : before.store.entries()) {
      if (after.store.Find(key) != entry.get() && key != HeadKey(kRun)) return key + " changed or is gone";
    }
    if (new_entry->token != old_entry->token) {
      const Head &was = HeadIn(*old_entry), &is = HeadIn(*new_entry);
      const auto step =
          fmt::format("from version {} (epoch {}, {}, write {}) to {} (epoch {}, {}, write {})", was.version, was.epoch,
                      was.publisher, was.sequence, is.version, is.epoch, is.publisher, is.sequence);
      if (is.sequence != was.sequence + 1) return "the sequence of the head jumps " + step;
      if (is.version != was.version && is.version != was.version.Next()) return "the version jumps " + step;
      if (is.epoch < was.epoch || (is.epoch == was.epoch && is.publisher != was.publisher)) {
        return "a publisher won without the epoch " + step;
      }
    }
    return OfStore(after.store);
  }
  // Whether publishers were told the truth, and whether whoever comes next can go on.
  std::string OfEnd(const ExploredState& state) {
    const std::string chain = ChainOf(state.store);
    for (const std::string& outcome : state.outcomes) {
      for (size_t at = outcome.find(':'); at != std::string::npos; at = outcome.find(':', at + 1)) {
        const bool said = outcome.substr(0, at).ends_with("published");
        const bool is = chain.find(outcome.substr(at + 1, 64)) != std::string::npos;
        if (said && !is) return "a publisher was told that it published, but it did not: " + outcome;
        if (!said && is) return "a publisher was told that it lost, but it published: " + outcome;
      }
    }
    const auto [at, first] = ends_.try_emplace(state.store.fingerprint().bytes);
    if (!first) return at->second;
    const auto copy = std::make_shared<ModelStore>(state.store);
    const std::string outcome = ModelPublisher({.name = "fresh", .claims_first = true}, copy).Run();
    const std::string wrong = Check(*copy);
    if (outcome.find("published") == std::string::npos)
      return at->second = "a fresh publisher can't publish: " + outcome;
    return at->second = wrong.empty() ? "" : "after a fresh publisher: " + wrong;
  }

 private:
  // The SHA-256s of all published manifests.
  static std::string ChainOf(const ModelStore& store) {
    Digest sha256 = Must(ParseHead(store.Find(HeadKey(kRun))->bytes)).manifest.sha256;
    std::string chain;
    Version version = Must(ParseHead(store.Find(HeadKey(kRun))->bytes)).version;
    while (true) {
      chain += sha256.Hex() + " ";
      const ModelStore::Entry* manifest = store.Find(StagedManifestKey(kRun, version, sha256));
      if (manifest == nullptr || version.IsBase()) return chain;
      sha256 = *Must(ParseManifest(manifest->bytes)).parent;
      version = version.Previous();
    }
  }
  static std::string Check(const ModelStore& store) {
    const Result<Head> head = ParseHead(store.Find(HeadKey(kRun))->bytes);
    if (!head) return "the head can't be read: " + Outcome(head);
    if (store.Find(ManifestKey(kRun, head->version.Next())) != nullptr) return "a version after the head has an alias";
    std::string key = head->manifest.key;
    Digest sha256 = head->manifest.sha256;
    for (Version version = head->version;; version = version.Previous()) {
      const ModelStore::Entry* entry = store.Find(key);
      if (entry == nullptr) return fmt::format("version {}: its manifest {} is not there", version, key);
      if (entry->token != sha256.Hex()) return fmt::format("version {}: {} is another manifest", version, key);
      const Manifest manifest = Must(ParseManifest(entry->bytes));
      if (manifest.version != version) return fmt::format("{} is of version {}", key, manifest.version);
      const ModelStore::Entry* alias = store.Find(ManifestKey(kRun, version));
      if (alias != nullptr && alias->token != sha256.Hex()) return fmt::format("version {} has another alias", version);
      if (version.IsBase()) return "";
      const std::string& data = manifest.edges[0].parts[0].object.key;
      if (store.Find(data) == nullptr) return fmt::format("version {} names {}, which is not there", version, data);
      key = ManifestKey(kRun, version.Previous());
      sha256 = *manifest.parent;
    }
  }

  const Head& HeadIn(const ModelStore::Entry& entry) {
    const auto [at, first] = heads_.try_emplace(entry.token);
    if (first) at->second = Must(ParseHead(entry.bytes));
    return at->second;
  }

  std::map<decltype(Digest::bytes), std::string> checked_, ends_;
  std::map<std::string, Head> heads_;
};

class HeadProtocol : public testing::Test {
 protected:
  // Version 0, by publisher a, who died before its alias was written.
  static ModelStore Start(const BrokenRules& broken = {}) {
    ModelStore whole;
    Must(whole.PutIfAbsent(BoardKey(),
                           MemorySource(Must(SerializeBoardInfo({.id = "model", .writes = WriteSafety::kFull})))));
    const auto shared = std::make_shared<ModelStore>(whole);
    const Board board = Must(Board::Open(shared));
    const StagedManifest staged = Must(board.StageManifest(SampleManifest(kRun, Version(0), std::nullopt)));
    Head head = SampleHead(staged, 1, "a");
    head.nonce = "first";
    Must(board.MoveHead(std::nullopt, head, staged));
    ModelStore start(broken);
    for (const auto& [key, entry] : shared->entries()) start.Restore(key, entry);
    return start;
  }
  static Exploration Explore(ModelStore start, std::vector<ExploredActor> actors, int faults) {
    Explorer explorer(std::move(start), std::move(actors), faults);
    Invariants invariants;
    explorer.check_step = [&](const auto& before, const auto& after) { return invariants.OfStep(before, after); };
    explorer.check_end = [&](const auto& state) { return invariants.OfEnd(state); };
    const Exploration found = explorer.Explore();
    fmt::print("[ explored ] {} states, {} steps, {:.3g} schedules\n", found.states, found.steps, found.schedules);
    return found;
  }
};

// 2 where SKERRY_EXPLORE_DEEP is set, which takes minutes; else 1.
int Depth() { return std::getenv("SKERRY_EXPLORE_DEEP") != nullptr ? 2 : 1; }

TEST_F(HeadProtocol, HoldsWhenAnOwnerAPublisherThatTakesOverAndAReaderMeetAndAnythingFails) {
  const Exploration found = Explore(Start(),
                                    {Publisher({.name = "a", .attempts = Depth()}),
                                     Publisher({.name = "b", .attempts = Depth(), .claims_first = true}), Reader(2)},
                                    1);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.schedules, 1e6);
}

TEST_F(HeadProtocol, HoldsWhenTwoTakeOverFromAnOwnerThatComesBackFromTheDead) {
  const Exploration found =
      Explore(Start(),
              {Publisher({.name = "a", .versions = Depth(), .attempts = Depth()}),
               Publisher({.name = "b", .attempts = Depth()}), Publisher({.name = "c", .attempts = Depth()})},
              1);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.schedules, 1e6);
}

TEST_F(HeadProtocol, HoldsWhenMessagesAreLostAndPublishersTryAgain) {
  const Exploration found = Explore(Start(), {Publisher({.name = "a"}), Publisher({.name = "b"})}, 1 + Depth());
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.schedules, 1e6);
}

// The explorer must find what is wrong where something is.

TEST_F(HeadProtocol, ASwapThatIgnoresItsTokenIsFound) {
  const Exploration found =
      Explore(Start({.swap_ignores_the_token = true}), {Publisher({.name = "a"}), Publisher({.name = "b"})}, 0);
  EXPECT_THAT(found.violation, AllOf(HasSubstr("the head"), HasSubstr("swap runs/r/head")));
}

TEST_F(HeadProtocol, AHeadThatMovesBeforeItsDataIsFoundByTheReader) {
  Explorer explorer(Start(), {Publisher({.name = "a", .data_last = true}), Reader(1)}, 0);
  EXPECT_THAT(explorer.Explore().violation, HasSubstr("the reader: not_found"));
}

TEST_F(HeadProtocol, AHeadThatMovesBeforeItsDataIsFoundWithoutAReaderToo) {
  const Exploration found = Explore(Start(), {Publisher({.name = "a", .data_last = true})}, 0);
  EXPECT_THAT(found.violation, HasSubstr("which is not there"));
}

TEST_F(HeadProtocol, AStoreThatForgetsWhatItAcknowledgedIsFound) {
  const Exploration found =
      Explore(Start({.put_is_not_durable = "manifest.json"}), {Publisher({.name = "a", .versions = 2})}, 0);
  EXPECT_THAT(found.violation, HasSubstr("its manifest runs/r/versions/000000000/manifest.json is not there"));
}

}  // namespace
}  // namespace skerry
