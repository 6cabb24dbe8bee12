#include "skerry/board/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>

#include "skerry/board/keys.h"
#include "skerry/board/names.h"

namespace skerry {
namespace {

constexpr uint64_t kMaxProbeBytes = 4096;

using Endpoints = std::vector<std::shared_ptr<Store>>;

// The text at `key`, nullopt where there is none.
Result<std::optional<std::string>> TextAt(Store& store, std::string_view key) {
  const Result<Object> object = store.Get(key, kMaxProbeBytes);
  if (object) return std::optional(ToString(object->bytes));
  if (object.error().code == Code::kNotFound) return std::optional<std::string>();
  return tl::unexpected<Error>(object.error());
}

// The conditions one at a time, through one endpoint. Each step builds on what the one before left.
class Checks {
 public:
  Checks(Store& store, std::string prefix) : store_(store), key_(prefix + "one"), missing_(prefix + "missing") {}

  Status Run() {
    SKERRY_TRY(Write("create a new object", key_, std::nullopt, "first", /*may_write=*/true));
    if (!last_right_) return {};  // nothing is there that the other checks need
    SKERRY_TRY(Write("create one that exists", key_, std::nullopt, "second", /*may_write=*/false));
    create_ = last_right_;

    SKERRY_ASSIGN(const Object now, store_.Get(key_, kMaxProbeBytes));
    SKERRY_TRY(Write("swap with the right token", key_, now.generation, "third", /*may_write=*/true));
    can_swap_ = swap_ = last_right_;
    SKERRY_TRY(Write("swap with a stale token", key_, now.generation, "fourth", /*may_write=*/false));
    // Where the swap before was refused, this token is not stale.
    swap_ = swap_ && last_right_;
    SKERRY_TRY(Write("swap of a missing object", missing_, now.generation, "fifth", /*may_write=*/false));
    swap_ = swap_ && last_right_;
    return {};
  }

  std::vector<ProbeCheck>& found() { return found_; }
  bool create() const { return create_; }
  bool swap() const { return swap_; }
  bool can_swap() const { return can_swap_; }
  std::vector<std::string> keys() const { return {key_, missing_}; }

 private:
  Status Write(std::string name, const std::string& key, const std::optional<Generation>& expected,
               std::string_view text, bool may_write) {
    SKERRY_ASSIGN(const auto before, TextAt(store_, key));
    const Result<Generation> written = store_.CompareAndSwap(key, expected, AsBytes(text));
    const bool lost = !written && written.error().code == Code::kConflict;
    const bool cannot = !written && written.error().code == Code::kUnsupported;
    if (!written && !lost && !cannot) return tl::unexpected<Error>(written.error());
    SKERRY_ASSIGN(const auto after, TextAt(store_, key));
    const bool wrote = after && *after == text;

    ProbeCheck check{.name = std::move(name), .endpoint = store_.Describe()};
    check.right = may_write ? written && wrote : lost && after == before;
    if (cannot) {
      check.found = written.error().message;
    } else if (may_write) {
      check.found = check.right ? "written" : lost ? "refused, though nothing else wrote" : "said written, but was not";
    } else if (check.right) {
      check.found = "refused";
    } else {
      check.found = lost ? "said refused, but changed the object" : "ignored the condition and wrote";
    }
    last_right_ = check.right;
    found_.push_back(std::move(check));
    return {};
  }

  Store& store_;
  const std::string key_, missing_;
  std::vector<ProbeCheck> found_;
  bool last_right_ = false, create_ = false, swap_ = false, can_swap_ = false;
};

// What became of the writes of one round.
struct Outcome {
  std::vector<int> winners;
  int failed = 0;
  std::string first_failure;
};

class Races {
 public:
  Races(const Endpoints& endpoints, const ProbeOptions& options, std::string prefix, Progress& progress)
      : endpoints_(endpoints), options_(options), prefix_(std::move(prefix)), progress_(progress) {}

  // Each round creates another object.
  Result<ProbeRace> Create() {
    ProbeRace race = Begin("create");
    const std::vector<std::optional<Generation>> none(endpoints_.size());
    for (int round = 0; round < options_.rounds; ++round) {
      keys_.push_back(fmt::format("{}race-create-{}", prefix_, round));
      const Outcome outcome = Round(keys_.back(), none, round);
      SKERRY_TRY(Judge(keys_.back(), round, outcome, race));
    }
    return race;
  }

  // Each round replaces what the one before left.
  Result<ProbeRace> Swap() {
    ProbeRace race = Begin("swap");
    keys_.push_back(prefix_ + "race-swap");
    const std::string key = keys_.back();
    SKERRY_ASSIGN([[maybe_unused]] const Generation first,
                  endpoints_[0]->CompareAndSwap(key, std::nullopt, AsBytes("before the races")));
    for (int round = 0; round < options_.rounds; ++round) {
      std::vector<std::optional<Generation>> expected;
      for (const auto& store : endpoints_) {
        SKERRY_ASSIGN(Object now, store->Get(key, kMaxProbeBytes));
        expected.emplace_back(std::move(now.generation));
      }
      const Outcome outcome = Round(key, expected, round);
      SKERRY_TRY(Judge(key, round, outcome, race));
    }
    return race;
  }

  const std::vector<std::string>& keys() const { return keys_; }

 private:
  ProbeRace Begin(const std::string& name) {
    progress_.Begin(name, static_cast<uint64_t>(options_.rounds) * static_cast<uint64_t>(options_.writers));
    return {.name = name};
  }

  std::string BytesOf(int round, int writer) const {
    return fmt::format("{} round {} writer {}", prefix_, round, writer);
  }

  Outcome Round(const std::string& key, const std::vector<std::optional<Generation>>& expected, int round) {
    Outcome outcome;
    std::mutex mutex;  // guards outcome
    std::barrier start(options_.writers);
    std::vector<std::thread> threads;
    for (int writer = 0; writer < options_.writers; ++writer) {
      threads.emplace_back([&, writer] {
        const size_t endpoint = static_cast<size_t>(writer) % endpoints_.size();
        const std::string mine = BytesOf(round, writer);
        start.arrive_and_wait();
        const Result<Generation> written = endpoints_[endpoint]->CompareAndSwap(key, expected[endpoint], AsBytes(mine));
        const std::lock_guard lock(mutex);
        if (written) {
          outcome.winners.push_back(writer);
        } else if (written.error().code != Code::kConflict && ++outcome.failed == 1) {
          outcome.first_failure = written.error().message;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    progress_.Advance(static_cast<uint64_t>(options_.writers));
    return outcome;
  }

  // Where nobody was told that it won, somebody's bytes may be there all the same (a lost reply): a publisher finds
  // that out by reading its nonce, and so does this.
  Status Judge(const std::string& key, int round, Outcome outcome, ProbeRace& race) const {
    bool wrong = false;
    for (const auto& store : endpoints_) {
      SKERRY_ASSIGN(const auto text, TextAt(*store, key));
      const auto wrote = [&](int writer) { return text == BytesOf(round, writer); };
      if (outcome.winners.empty()) {
        for (int writer = 0; writer < options_.writers; ++writer) {
          if (wrote(writer)) outcome.winners.push_back(writer);
        }
        continue;
      }
      wrong = wrong || std::ranges::none_of(outcome.winners, wrote);
    }
    const auto winners = static_cast<int>(outcome.winners.size());
    ++race.rounds;
    race.one_winner += winners == 1 && !wrong;
    race.no_winner += winners == 0;
    race.most_winners = std::max(race.most_winners, winners);
    race.wrong_bytes += wrong;
    race.failed_writes += outcome.failed;
    if (race.first_failure.empty()) race.first_failure = std::move(outcome.first_failure);
    return {};
  }

  const Endpoints& endpoints_;
  const ProbeOptions& options_;
  const std::string prefix_;
  Progress& progress_;
  std::vector<std::string> keys_;
};

// A race in which no write ever got through says nothing about races.
Status CheckConclusive(const ProbeRace& race) {
  if (race.no_winner < race.rounds) return {};
  if (race.failed_writes > 0) {
    return Fail(Code::kUnavailable, "{} rounds of racing writers ({}) had no winner: {}", race.rounds, race.name,
                race.first_failure);
  }
  return Fail(Code::kUnavailable, "{} rounds of racing writers ({}) had no winner: every writer was told that it lost",
              race.rounds, race.name);
}

std::string WhatWentWrong(const ProbeReport& report) {
  for (const ProbeCheck& check : report.checks) {
    if (!check.right) return fmt::format("{}: {}", check.name, check.found);
  }
  for (const ProbeRace& race : report.races) {
    if (race.most_winners > 1) {
      return fmt::format("racing writers ({}): up to {} of them won at once", race.name, race.most_winners);
    }
    if (race.wrong_bytes > 0) {
      return fmt::format("racing writers ({}): other bytes than the winner's were there after {} of {} rounds",
                         race.name, race.wrong_bytes, race.rounds);
    }
  }
  return "";
}

class Probe {
 public:
  Probe(const Endpoints& endpoints, const ProbeOptions& options, Progress& progress)
      : endpoints_(endpoints), prefix_(ProbePrefix(RandomToken())), races_(endpoints, options, prefix_, progress) {}

  Result<ProbeReport> Run() {
    const Status probed = Find();
    Clean();
    SKERRY_TRY(probed);
    report_.reason = WhatWentWrong(report_);
    return std::move(report_);
  }

 private:
  Status Find() {
    bool create = true, swap = true;
    report_.can_swap = true;
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      Checks checks(*endpoints_[i], fmt::format("{}endpoint-{}-", prefix_, i));
      std::ranges::copy(checks.keys(), std::back_inserter(keys_));
      SKERRY_TRY(checks.Run());
      SKERRY_TRY(CheckSeenThroughAll(checks.keys().front()));
      create = create && checks.create();
      swap = swap && checks.swap();
      report_.can_swap = report_.can_swap && checks.can_swap();
      std::ranges::move(checks.found(), std::back_inserter(report_.checks));
    }
    report_.verdict = !create ? WriteSafety::kNone : swap ? WriteSafety::kFull : WriteSafety::kCreateOnly;
    if (create) SKERRY_TRY(Take(races_.Create()));
    if (create && swap) SKERRY_TRY(Take(races_.Swap()));
    for (const auto& store : endpoints_) {
      if (std::string form = store->DescribeTokens(); !form.empty()) report_.token_forms.push_back(std::move(form));
    }
    return {};
  }

  Status CheckSeenThroughAll(const std::string& key) {
    SKERRY_ASSIGN(const auto text, TextAt(*endpoints_[0], key));
    for (const auto& store : endpoints_) {
      SKERRY_ASSIGN(const auto here, TextAt(*store, key));
      if (here == text) continue;
      return Fail(Code::kMismatch, "{} and {} do not show the same objects: they are not two ways to one board",
                  endpoints_[0]->Describe(), store->Describe());
    }
    return {};
  }

  Status Take(Result<ProbeRace> race) {
    SKERRY_TRY(race);
    SKERRY_TRY(CheckConclusive(*race));
    if (!race->Safe()) report_.verdict = WriteSafety::kUnsafe;
    report_.races.push_back(*std::move(race));
    return {};
  }

  // What can't be removed does no harm: nobody reads below probe/.
  void Clean() {
    Status cleaned;
    std::ranges::copy(races_.keys(), std::back_inserter(keys_));
    for (const std::string& key : keys_) {
      Status deleted = endpoints_[0]->Delete(key);
      if (cleaned && !deleted) cleaned = std::move(deleted);
    }
    if (cleaned) cleaned = endpoints_[0]->DeleteEmptyFolder(prefix_);
    if (!cleaned) report_.leftover = cleaned.error().message;
  }

  const Endpoints& endpoints_;
  const std::string prefix_;
  Races races_;
  std::vector<std::string> keys_;
  ProbeReport report_;
};

}  // namespace

Result<ProbeReport> ProbeStore(const std::vector<std::shared_ptr<Store>>& endpoints, const ProbeOptions& options,
                               Progress& progress) {
  if (endpoints.empty() || options.writers < 2 || options.rounds < 1) {
    return Fail(Code::kInvalid, "a probe needs an endpoint, 2 writers and a round, not {}, {} and {}", endpoints.size(),
                options.writers, options.rounds);
  }
  return Probe(endpoints, options, progress).Run();
}

}  // namespace skerry
