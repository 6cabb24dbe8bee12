// Every way in which some actors' store operations can follow each other, with crashes and lost messages, over the real
// code: a small exhaustive model checker.
//
// An actor is an ordinary function that uses a Store. It is run again and again: operations that it did before get the
// replies that they got then, and at the first new one it is left (by an exception) until the explorer grants that
// operation. So an actor's state is just the list of its replies, no threads are needed, and two schedules that lead to
// the same store and the same replies are explored once. Actors must be deterministic: no clock, no random nonces.
#ifndef SKERRY_TESTS_TESTING_EXPLORER_H_
#define SKERRY_TESTS_TESTING_EXPLORER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/testing/model_store.h"

namespace skerry {

using StoreReply =
    std::variant<Status, Result<Object>, Result<Generation>, Result<ObjectInfo>, Result<std::vector<std::string>>>;

struct StoreOperation {
  std::string text;  // "swap runs/r/head"
  bool writes = false;
  std::function<StoreReply(Store&)> run;
  std::function<StoreReply(Error)> fail;
};

// What is thrown out of an actor at an operation that has no reply yet.
struct WaitsForReply {
  StoreOperation operation;
};
// What an actor throws when it sees what must never be.
struct Violation {
  std::string text;
};

// Gives the replies of a log, then throws. Reads of board.json are answered at once: it never changes.
class ReplayStore : public Store {
 public:
  ReplayStore(std::vector<StoreReply> log, const ModelStore& start) : log_(std::move(log)), start_(start) {}

  std::string Describe() const override { return start_.Describe(); }
  Result<Object> Get(std::string_view key, uint64_t limit) override {
    if (key == BoardKey()) return start_.Get(key, limit);
    return Do<Result<Object>>("get", key, false,
                              [=](Store& store, const std::string& k) { return store.Get(k, limit); });
  }
  Status ReadRange(std::string_view key, uint64_t offset, MutableByteSpan out) override {
    SKERRY_ASSIGN(const Object object, Get(key, UINT64_MAX));
    return MemorySource(object.bytes).Read(offset, out);
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    return Do<Result<ObjectInfo>>("stat", key, false, [](Store& store, const std::string& k) { return store.Stat(k); });
  }
  Status PutIfAbsent(std::string_view key, const ByteSource& source) override {
    Bytes bytes(source.size());
    SKERRY_TRY(source.Read(0, bytes));
    return Do<Status>("put", key, true, [bytes = std::move(bytes)](Store& store, const std::string& k) {
      return store.PutIfAbsent(k, MemorySource(bytes));
    });
  }
  Result<Generation> CompareAndSwap(std::string_view key, const std::optional<Generation>& expected,
                                    ByteSpan bytes) override {
    return Do<Result<Generation>>("swap", key, true,
                                  [expected, copy = ToBytes(bytes)](Store& store, const std::string& k) {
                                    return store.CompareAndSwap(k, expected, copy);
                                  });
  }
  Status Delete(std::string_view key) override {
    return Do<Status>("delete", key, true, [](Store& store, const std::string& k) { return store.Delete(k); });
  }
  Result<std::vector<std::string>> List(std::string_view prefix) override {
    return Do<Result<std::vector<std::string>>>("list", prefix, false,
                                                [](Store& store, const std::string& k) { return store.List(k); });
  }

 private:
  template <typename R, typename Run>
  R Do(std::string_view what, std::string_view key, bool writes, Run run) {
    if (next_ < log_.size()) return std::get<R>(log_[next_++]);
    throw WaitsForReply{{.text = fmt::format("{} {}", what, key),
                         .writes = writes,
                         .run = [run, k = std::string(key)](Store& store) { return StoreReply(R(run(store, k))); },
                         .fail = [](Error error) { return StoreReply(R(tl::unexpected<Error>(std::move(error)))); }}};
  }

  std::vector<StoreReply> log_;
  size_t next_ = 0;
  ModelStore start_;
};

struct ExploredActor {
  std::string name;
  // Returns what it takes to be the outcome, "published 1".
  std::function<std::string(std::shared_ptr<Store>)> body;
};

// The store and each actor's outcome: empty while it is at work, "crashed" when it died.
struct ExploredState {
  ModelStore store;
  std::vector<std::string> outcomes;
};

struct Exploration {
  uint64_t states = 0, steps = 0;
  double schedules = 0;   // ways through these states from start to end; too many to count in integers
  std::string violation;  // with the steps that led to it; empty when there was none
};

class Explorer {
 public:
  // In each schedule at most `faults` of: an actor crashes; an operation fails without effect; it fails although it has
  // its effect; it fails and has its effect at any later time.
  Explorer(ModelStore start, std::vector<ExploredActor> actors, int faults)
      : start_(std::move(start)), actors_(std::move(actors)), faults_(faults) {}

  // Checks return what is wrong, or "". After each step, which the first state was before:
  std::function<std::string(const ExploredState&, const ExploredState&)> check_step;
  // When nothing more can happen:
  std::function<std::string(const ExploredState&)> check_end;

  Exploration Explore() {
    Node node{.state = {.store = start_, .outcomes = std::vector<std::string>(actors_.size())},
              .actors = std::vector<ActorNode>(actors_.size()),
              .late = {},
              .faults = faults_};
    try {
      for (size_t i = 0; i < actors_.size(); ++i) GoOn(node, i);
      found_.schedules = Visit(node);
    } catch (const Violation& violation) {
      found_.violation = violation.text;
      for (const std::string& step : path_) found_.violation += "\n  " + step;
    }
    return found_;
  }

 private:
  // The replies that an actor got, the newest first.
  struct Replies {
    StoreReply last;
    std::shared_ptr<const Replies> before;
  };
  struct ActorNode {
    std::shared_ptr<const Replies> replies;
    Digest fingerprint;                          // of them
    std::shared_ptr<const StoreOperation> next;  // null when it has ended
  };
  struct Node {
    ExploredState state;
    std::vector<ActorNode> actors;
    std::vector<std::shared_ptr<const StoreOperation>> late;  // will have their effect some time
    int faults = 0;
  };
  // How an actor goes on after the replies that it got: with an operation, or it ends.
  struct GoesOn {
    std::shared_ptr<const StoreOperation> next;
    std::string outcome;
  };

  static std::string TextOf(const StoreReply& reply) {
    return std::visit(
        [](const auto& result) -> std::string {
          using R = std::decay_t<decltype(result)>;
          if (!result) return fmt::format("{} {}", CodeName(result.error().code), result.error().message);
          if constexpr (std::is_same_v<R, Result<Object>>) return result->generation.token();
          if constexpr (std::is_same_v<R, Result<Generation>>) return result->token();
          if constexpr (std::is_same_v<R, Result<ObjectInfo>>) return std::to_string(result->size);
          if constexpr (std::is_same_v<R, Result<std::vector<std::string>>>)
            return fmt::format("{}", fmt::join(*result, " "));
          return "ok";
        },
        reply);
  }

  void GoOn(Node& node, size_t i) {
    ActorNode& actor = node.actors[i];
    const auto [at, first] = known_.try_emplace({i, actor.fingerprint.bytes});
    if (first) {
      std::vector<StoreReply> log;
      for (const Replies* reply = actor.replies.get(); reply != nullptr; reply = reply->before.get()) {
        log.push_back(reply->last);
      }
      std::reverse(log.begin(), log.end());
      try {
        at->second.outcome = actors_[i].body(std::make_shared<ReplayStore>(std::move(log), start_));
      } catch (WaitsForReply& waits) {
        at->second.next = std::make_shared<const StoreOperation>(std::move(waits.operation));
      }
    }
    actor.next = at->second.next;
    node.state.outcomes[i] = at->second.outcome;
  }

  void Answer(Node& node, size_t i, StoreReply reply) {
    ActorNode& actor = node.actors[i];
    Sha256 hash;
    hash.Update(actor.fingerprint.bytes);
    hash.Update(TextOf(reply));
    actor.fingerprint = hash.Finish();
    actor.replies = std::make_shared<const Replies>(Replies{std::move(reply), std::move(actor.replies)});
    GoOn(node, i);
  }

  Digest Fingerprint(const Node& node) const {
    Sha256 hash;
    hash.Update(node.state.store.fingerprint().bytes);
    for (size_t i = 0; i < actors_.size(); ++i) {
      hash.Update(node.actors[i].fingerprint.bytes);
      hash.Update(node.actors[i].next ? "goes on" : node.state.outcomes[i]);
    }
    for (const auto& late : node.late) hash.Update(std::as_bytes(std::span(&late, 1)));
    hash.Update(std::as_bytes(std::span(&node.faults, 1)));
    return hash.Finish();
  }

  // Goes on in `after`, which one step made of `before`. Returns the number of schedules from there.
  double Step(const Node& before, const Node& after, std::string text) {
    path_.push_back(std::move(text));
    ++found_.steps;
    if (check_step) Demand(check_step(before.state, after.state));
    const double schedules = Visit(after);
    path_.pop_back();
    return schedules;
  }

  static void Demand(const std::string& wrong) {
    if (!wrong.empty()) throw Violation{wrong};
  }

  double Visit(const Node& node) {
    const auto [at, first] = visited_.try_emplace(Fingerprint(node).bytes, 0);
    if (!first) return at->second;
    double& known = at->second;  // stays where it is when others come
    ++found_.states;
    double schedules = 0;
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (node.actors[i].next) schedules += StepsOf(node, i);
    }
    for (size_t i = 0; i < node.late.size(); ++i) {
      Node after = node;
      (void)after.late[i]->run(after.state.store);
      after.late.erase(after.late.begin() + static_cast<ptrdiff_t>(i));
      schedules += Step(node, after, "late: " + node.late[i]->text);
    }
    if (schedules == 0) {
      if (check_end) Demand(check_end(node.state));
      schedules = 1;
    }
    return known = schedules;
  }

  // What can happen to the next operation of one actor.
  double StepsOf(const Node& node, size_t i) {
    const StoreOperation& operation = *node.actors[i].next;
    const std::string text = fmt::format("{}: {}", actors_[i].name, operation.text);
    const auto failed = [&] {
      return operation.fail({Code::kUnavailable, fmt::format("{}: the connection was closed", operation.text)});
    };
    double schedules = 0;
    {
      Node after = node;
      StoreReply reply = operation.run(after.state.store);
      Answer(after, i, std::move(reply));
      schedules += Step(node, after, text);
    }
    if (node.faults == 0) return schedules;
    Node faulty = node;
    --faulty.faults;
    {
      Node after = faulty;
      after.actors[i].next = nullptr;
      after.state.outcomes[i] = "crashed";
      schedules += Step(node, after, text + " (crashes before it)");
    }
    {
      Node after = faulty;
      Answer(after, i, failed());
      schedules += Step(node, after, text + " (request lost)");
    }
    if (!operation.writes) return schedules;
    {
      Node after = faulty;
      (void)operation.run(after.state.store);
      Answer(after, i, failed());
      schedules += Step(node, after, text + " (reply lost)");
    }
    Node after = faulty;
    after.late.push_back(node.actors[i].next);
    Answer(after, i, failed());
    return schedules + Step(node, after, text + " (lands later)");
  }

  const ModelStore start_;
  const std::vector<ExploredActor> actors_;
  const int faults_;
  using Key = decltype(Digest::bytes);
  std::map<std::pair<size_t, Key>, GoesOn> known_;  // by actor and its replies
  std::map<Key, double> visited_;                   // schedules from each state
  std::vector<std::string> path_;
  Exploration found_;
};

}  // namespace skerry

#endif  // SKERRY_TESTS_TESTING_EXPLORER_H_
