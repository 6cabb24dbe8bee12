#include "skerry/board/probe.h"

#include <unistd.h>

#include <mutex>

#include "commands.h"
#include "skerry/base/clock.h"
#include "skerry/board/store_url.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board;
  std::vector<std::string> endpoints;
  std::optional<uint64_t> writers, rounds;
};

constexpr uint64_t kMaxWriters = 1024, kMaxRounds = 100'000;

// A line on a terminal with the writes of the race that is running.
class RaceLine : public Progress {
 public:
  explicit RaceLine(bool shown) : shown_(shown) {}
  ~RaceLine() override {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void Begin(std::string_view race, uint64_t writes) override {
    const std::lock_guard lock(mutex_);
    race_ = race;
    total_ = writes;
    done_ = 0;
    Draw();
  }
  void Advance(uint64_t writes) override {
    const std::lock_guard lock(mutex_);
    done_ += writes;
    Draw();
  }

 private:
  void Draw() {
    if (!shown_) return;
    fmt::print(stderr, "\r\033[Krace {}: {} of {} writes", race_, done_, total_);
    std::fflush(stderr);
  }

  const bool shown_;
  std::mutex mutex_;
  std::string race_;
  uint64_t total_ = 0, done_ = 0;
};

// The same board through another endpoint: s3://bucket/prefix?endpoint=…
std::string WithEndpoint(std::string_view board, std::string_view endpoint) {
  const size_t question = board.find('?');
  std::string url(board.substr(0, question));
  std::string_view query = question == std::string_view::npos ? "" : board.substr(question + 1);
  char separator = '?';
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    if (item.starts_with("endpoint=")) continue;
    url += separator;
    url += item;
    separator = '&';
  }
  return fmt::format("{}{}endpoint={}", url, separator, endpoint);
}

Result<std::vector<std::shared_ptr<Store>>> OpenEndpoints(const Arguments& args) {
  std::vector<std::shared_ptr<Store>> stores;
  for (const std::string& endpoint : args.endpoints) {
    SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(WithEndpoint(args.board, endpoint), /*create=*/false));
    stores.push_back(std::move(store));
  }
  if (stores.empty()) {
    SKERRY_ASSIGN(std::shared_ptr<Store> store, OpenStore(args.board, /*create=*/false));
    stores.push_back(std::move(store));
  }
  return stores;
}

nlohmann::ordered_json ToJson(const ProbeReport& report) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array(), races = nlohmann::ordered_json::array();
  for (const ProbeCheck& check : report.checks) {
    checks.push_back(
        {{"name", check.name}, {"endpoint", check.endpoint}, {"right", check.right}, {"found", check.found}});
  }
  for (const ProbeRace& race : report.races) {
    races.push_back({{"name", race.name},
                     {"rounds", race.rounds},
                     {"one_winner", race.one_winner},
                     {"no_winner", race.no_winner},
                     {"most_winners", race.most_winners},
                     {"wrong_bytes", race.wrong_bytes},
                     {"failed_writes", race.failed_writes},
                     {"first_failure", race.first_failure}});
  }
  return {{"verdict", NameOf(report.verdict)}, {"follows", WhatFollows(report.verdict)},
          {"reason", report.reason},           {"can_swap", report.can_swap},
          {"checks", std::move(checks)},       {"races", std::move(races)},
          {"tokens", report.token_forms},      {"leftover", report.leftover}};
}

void Print(const ProbeReport& report, const Arguments& args) {
  fmt::print("conditional writes of {}: {}\n{}\n\n", args.board, NameOf(report.verdict), WhatFollows(report.verdict));
  std::vector<std::vector<std::string>> rows = {{"one writer", "", "found"}};
  for (const ProbeCheck& check : report.checks) {
    rows.push_back({check.name, check.right ? "right" : "WRONG", check.found});
  }
  PrintTable(rows);
  if (!report.races.empty()) fmt::print("\n");
  rows = {{"many writers", "rounds", "one winner", "no winner", "most winners", "wrong bytes", "failed writes"}};
  for (const ProbeRace& race : report.races) {
    rows.push_back({race.name, std::to_string(race.rounds), std::to_string(race.one_winner),
                    std::to_string(race.no_winner), std::to_string(race.most_winners), std::to_string(race.wrong_bytes),
                    std::to_string(race.failed_writes)});
  }
  if (!report.races.empty()) PrintTable(rows);
  for (const ProbeRace& race : report.races) {
    if (!race.first_failure.empty()) fmt::print("first failed write ({}): {}\n", race.name, race.first_failure);
  }
  for (const std::string& form : report.token_forms) fmt::print("tokens: {}\n", form);
}

Status Run(const Arguments& args, const CommonOptions& common) {
  const Stopwatch watch;
  SKERRY_ASSIGN(const auto stores, OpenEndpoints(args));
  const ProbeOptions defaults;
  const ProbeOptions options{.writers = static_cast<int>(args.writers.value_or(defaults.writers)),
                             .rounds = static_cast<int>(args.rounds.value_or(defaults.rounds))};
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  Result<ProbeReport> probed = [&] {
    RaceLine progress(terminal && !common.json && !common.no_progress);
    return ProbeStore(stores, options, progress);
  }();
  SKERRY_ASSIGN(const ProbeReport report, std::move(probed));
  if (common.json) {
    nlohmann::ordered_json json = {{"board", args.board}, {"writers", options.writers}};
    json.update(ToJson(report));
    json["seconds"] = watch.Seconds();
    PrintJson(json);
  } else {
    Print(report, args);
  }
  if (!report.leftover.empty()) PrintWarning("some of the probe's objects are left: " + report.leftover);
  if (report.verdict == WriteSafety::kFull) return {};
  return Fail(Code::kUnsupported, "conditional writes of {} are '{}' ({}): {}{}", args.board, NameOf(report.verdict),
              report.reason, WhatFollows(report.verdict),
              report.can_swap ? "" : "; and since swaps are refused, it can't publish after version 0");
}

}  // namespace

void AddProbe(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("probe", "Try whether a store keeps to the conditions that publishing relies on",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board,
                  "Where a board is or shall be; the probe writes below probe/ there and cleans up")
      .Option("--endpoint", args->endpoints,
              "Address of an S3 server; several are ways to one bucket that are raced against each other")
      .Option("--writers", args->writers, "Writers that race each other (default 32)")
      .Option("--rounds", args->rounds, "Rounds of each race (default 5)")
      .Check([args]() -> std::string {
        if (!args->endpoints.empty() && !args->board.starts_with("s3://")) return "--endpoint is for boards in s3://";
        const uint64_t writers = args->writers.value_or(2), rounds = args->rounds.value_or(1);
        if (writers < 2 || writers > kMaxWriters) return fmt::format("--writers: from 2 to {}", kMaxWriters);
        if (rounds < 1 || rounds > kMaxRounds) return fmt::format("--rounds: from 1 to {}", kMaxRounds);
        return "";
      })
      .Example("skerry probe 's3://bucket/board?endpoint=http://10.0.0.5:9000' --writers 32 --rounds 5");
}

}  // namespace skerry
