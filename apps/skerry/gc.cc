#include "commands.h"
#include "open_board.h"
#include "skerry/base/text.h"
#include "skerry/board/collect.h"
#include "terminal.h"

namespace skerry {
namespace {

using State = CollectedKey::State;

struct Arguments {
  std::string board, run;
  std::optional<uint64_t> keep = 100, grace = 3600;
  bool dry_run = false;
};

// Versions that follow each other and stay for the same reason.
struct Span {
  Version first, last;
  std::string why;
};

std::vector<Span> SpansOf(const std::map<Version, std::string>& versions) {
  std::vector<Span> spans;
  for (const auto& [version, why] : versions) {
    if (!spans.empty() && spans.back().last.Next() == version && spans.back().why == why) {
      spans.back().last = version;
    } else {
      spans.push_back({version, version, why});
    }
  }
  return spans;
}

std::string_view NameOf(State state, bool dry_run) {
  switch (state) {
    case State::kRemoved: return dry_run ? "would remove" : "removed";
    case State::kCondemned: return dry_run ? "would condemn" : "condemned";
    case State::kWaiting: return "later";
  }
  return "";
}

nlohmann::ordered_json ToJson(const CollectedRun& run, bool dry_run) {
  nlohmann::ordered_json versions = nlohmann::ordered_json::array(), anchors = versions, keys = versions;
  for (const Span& span : SpansOf(run.retention.versions)) {
    versions.push_back({{"first", span.first.number()}, {"last", span.last.number()}, {"why", span.why}});
  }
  for (const auto& [version, why] : run.retention.anchors) {
    anchors.push_back({{"version", version.number()}, {"why", why}});
  }
  for (const CollectedKey& key : run.keys) {
    nlohmann::ordered_json item = {
        {"key", key.key}, {"state", NameOf(key.state, dry_run)}, {"bytes", key.bytes}, {"why", key.why}};
    if (key.state != State::kWaiting) item["condemned_ms"] = key.since;
    keys.push_back(std::move(item));
  }
  return {{"run", run.run.str()},
          {"kept_versions", std::move(versions)},
          {"kept_anchors", std::move(anchors)},
          {"kept_bytes", run.retention.kept_bytes},
          {"removed", run.count(State::kRemoved)},
          {"removed_bytes", run.bytes(State::kRemoved)},
          {"condemned", run.count(State::kCondemned)},
          {"condemned_bytes", run.bytes(State::kCondemned)},
          {"waiting", run.count(State::kWaiting)},
          {"keys", std::move(keys)},
          {"expired_leases", run.leases},
          {"problem", run.retention.problem},
          {"notes", run.retention.notes}};
}

void PrintRun(const CollectedRun& run, bool dry_run) {
  fmt::print("run {}: keeps {} in {} versions and {} anchors\n", run.run, HumanBytes(run.retention.kept_bytes),
             run.retention.versions.size(), run.retention.anchors.size());
  for (const Span& span : SpansOf(run.retention.versions)) {
    const std::string numbers =
        span.first == span.last ? span.first.ToString() : fmt::format("{}-{}", span.first, span.last);
    fmt::print("  version {}: {}\n", numbers, Printable(span.why));
  }
  for (const auto& [version, why] : run.retention.anchors) fmt::print("  anchor {}: {}\n", version, Printable(why));
  if (!run.retention.problem.empty()) fmt::print("  nothing goes: {}\n", Printable(run.retention.problem));
  for (const std::string& note : run.retention.notes) fmt::print("  note: {}\n", Printable(note));
  for (const CollectedKey& key : run.keys) {
    fmt::print("  {} {} ({}): {}\n", NameOf(key.state, dry_run), Printable(key.key), HumanBytes(key.bytes),
               Printable(key.why));
  }
  for (const std::string& lease : run.leases) {
    fmt::print("  {} {}: expired\n", NameOf(State::kRemoved, dry_run), Printable(lease));
  }
  for (const State state : {State::kRemoved, State::kCondemned, State::kWaiting}) {
    if (run.count(state) == 0) continue;
    fmt::print("  {} {} objects, {}\n", NameOf(state, dry_run), Grouped(run.count(state)),
               HumanBytes(run.bytes(state)));
  }
}

Status Run(const Arguments& args, const CommonOptions& common) {
  CollectOptions options{
      .policy = {.keep_versions = *args.keep}, .grace = std::chrono::seconds(*args.grace), .dry_run = args.dry_run};
  if (!args.run.empty()) {
    SKERRY_ASSIGN(options.run, RunId::Parse(args.run));
  }
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board));
  SKERRY_ASSIGN(const CollectReceipt receipt, Collect(board, options, Clock::System()));
  if (common.json) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const CollectedRun& run : receipt.runs) runs.push_back(ToJson(run, args.dry_run));
    PrintJson({{"board", args.board},
               {"dry_run", args.dry_run},
               {"keep", *args.keep},
               {"grace", *args.grace},
               {"runs", std::move(runs)},
               {"leftovers_removed", receipt.leftovers}});
    return {};
  }
  for (const CollectedRun& run : receipt.runs) PrintRun(run, args.dry_run);
  if (receipt.runs.empty()) fmt::print("no runs in {}\n", board.Describe());
  if (receipt.leftovers > 0) fmt::print("removed {} leftovers of writers that died\n", Grouped(receipt.leftovers));
  return {};
}

}  // namespace

void AddGc(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("gc", "Remove from a board what nobody can ask for any more, and say what stays for whom",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Option("--run", args->run, "Only this run (default: all)")
      .Option("--keep", args->keep, "Versions of each run that stay, the newest so many (default 100)")
      .Option(
          "--grace", args->grace,
          "Seconds from condemning an object to removing it in a later call (default 3600; 0 only where nobody reads)")
      .Flag("--dry-run", args->dry_run, "Explain what would be done and change nothing")
      .Check([args] {
        if (*args->keep == 0) return "--keep 0: the newest version always stays";
        return *args->grace > 366 * 86400 ? "--grace: more than a year" : "";
      })
      .Example("skerry gc /mnt/board --keep 200 --dry-run");
}

}  // namespace skerry
