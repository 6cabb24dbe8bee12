#include "skerry/board/probe_race.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>

namespace skerry {

Result<std::optional<std::string>> ProbeText(Store& store, std::string_view key) {
  const Result<Object> object = store.Get(key, kMaxProbeBytes);
  if (object) return std::optional(ToString(object->bytes));
  if (object.error().code == Code::kNotFound) return std::optional<std::string>();
  return tl::unexpected<Error>(object.error());
}

Result<ProbeRace> ProbeRaces::Create() {
  ProbeRace race = Begin("create");
  const std::vector<std::optional<Generation>> none(endpoints_.size());
  for (int round = 0; round < options_.rounds; ++round) {
    keys_.push_back(fmt::format("{}race-create-{}", prefix_, round));
    const Outcome outcome = Round(keys_.back(), none, round);
    SKERRY_TRY(Judge(keys_.back(), round, outcome, race));
  }
  return race;
}

Result<ProbeRace> ProbeRaces::Swap() {
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

ProbeRace ProbeRaces::Begin(const std::string& name) {
  progress_.Begin(name, static_cast<uint64_t>(options_.rounds) * static_cast<uint64_t>(options_.writers));
  return {.name = name};
}

std::string ProbeRaces::BytesOf(int round, int writer) const {
  return fmt::format("{} round {} writer {}", prefix_, round, writer);
}

ProbeRaces::Outcome ProbeRaces::Round(const std::string& key, const std::vector<std::optional<Generation>>& expected,
                                      int round) {
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
Status ProbeRaces::Judge(const std::string& key, int round, Outcome outcome, ProbeRace& race) const {
  bool wrong = false;
  for (const auto& store : endpoints_) {
    SKERRY_ASSIGN(const auto text, ProbeText(*store, key));
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

}  // namespace skerry
