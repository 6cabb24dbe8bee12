#include <unistd.h>

#include <chrono>
#include <thread>

#include "agent_client.h"
#include "commands.h"
#include "open_board.h"
#include "skerry/base/text.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board;
  std::vector<std::string> trust_keys;
  AgentAddress agent;
  bool watch = false;
};

constexpr std::chrono::seconds kBetweenLooks{1};

struct RunStatus {
  std::string name;
  std::optional<Head> head;
  std::optional<Manifest> manifest;
  std::string problem;  // why the run can't be read
};

nlohmann::ordered_json NearestAnchor(const Manifest& manifest) {
  if (manifest.anchors.empty()) return nullptr;
  return manifest.anchors[0].version.number();
}

Status ShowBoard(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board, args.trust_keys));
  SKERRY_ASSIGN(std::vector<RunId> runs, board.Runs());
  std::vector<RunStatus> rows;
  std::optional<Error> worst;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunId run = runs[i];
    RunStatus row{.name = run.str()};
    const auto at = board.ReadHead(run);
    if (at) {
      row.head = at->head;
      // Its further views come after it, each in a row of its own.
      for (size_t k = at->head.views.size(); k > 0; --k) {
        SKERRY_ASSIGN(RunId view, run.View(at->head.views[k - 1].view));
        runs.insert(runs.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(view));
      }
      auto manifest = board.ReadManifest(at->head, at->head.version);
      if (manifest) {
        row.manifest = *std::move(manifest);
      } else {
        row.problem = manifest.error().message;
        worst = manifest.error();
      }
    } else {
      row.problem = at.error().message;
      worst = at.error();
    }
    rows.push_back(std::move(row));
  }
  if (common.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const RunStatus& row : rows) {
      nlohmann::ordered_json item = {{"run", row.name}};
      if (row.head) {
        item["version"] = row.head->version.number();
        item["epoch"] = row.head->epoch;
        item["time"] = row.head->time;
        item["model_digest"] = row.head->model.Hex();
      }
      if (row.manifest) {
        item["step"] = row.manifest->step ? nlohmann::ordered_json(*row.manifest->step) : nlohmann::ordered_json();
        item["nearest_anchor"] = NearestAnchor(*row.manifest);
        item["checkpoint_bytes"] = row.manifest->stats.checkpoint_bytes;
        item["patch_bytes"] = row.manifest->stats.patch_bytes;
      }
      if (!row.problem.empty()) item["problem"] = row.problem;
      list.push_back(std::move(item));
    }
    PrintJson({{"board", args.board}, {"id", board.id()}, {"runs", list}});
  } else {
    fmt::print("{}\n", board.Describe());
    std::vector<std::vector<std::string>> table = {
        {"run", "version", "step", "epoch", "checkpoint", "last patch", "anchor", "head moved"}};
    for (const RunStatus& row : rows) {
      if (!row.head || !row.manifest) continue;
      table.push_back(
          {row.name, row.head->version.ToString(), row.manifest->step ? std::to_string(*row.manifest->step) : "-",
           std::to_string(row.head->epoch), HumanBytes(row.manifest->stats.checkpoint_bytes),
           row.manifest->version.IsBase() ? "-" : HumanBytes(row.manifest->stats.patch_bytes),
           NearestAnchor(*row.manifest).is_null() ? "-" : NearestAnchor(*row.manifest).dump(), row.head->time});
    }
    if (rows.empty()) {
      fmt::print("no runs yet: skerry init {} --run NAME --base CKPT\n", args.board);
    } else {
      PrintTable(table);
    }
    for (const RunStatus& row : rows) {
      if (!row.problem.empty()) fmt::print("{}: {}\n", row.name, Printable(row.problem));
    }
  }
  if (worst) return tl::unexpected<Error>(*worst);
  return {};
}

// "12", "grpo-1@7", "-" for null.
std::string Text(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string Milliseconds(const nlohmann::ordered_json& seconds) {
  return fmt::format("{:.0f} ms", seconds.is_number() ? seconds.get<double>() * 1000 : 0.0);
}

void PrintAgent(const nlohmann::ordered_json& status) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"run", fmt::format("{}, following {}", Text(status["run"]), Text(status["follow"]))},
      {"serves", fmt::format("version {} of {} ({} behind)", Text(status["version"]), Text(status["head"]),
                             Text(status["behind"]))},
      {"state", fmt::format("{}{}{}", Text(status["phase"]), status["ready"] == true ? ", ready" : ", not ready",
                            status["degraded"] == true ? ", degraded" : "")}};
  if (const auto& update = status["last_update"]; update.is_object()) {
    facts.emplace_back(
        "last update",
        fmt::format("{} at {}: {} by {}, {} fetched, {} changed, paused {}", Text(update["to"]), Text(update["time"]),
                    Text(update["engines"]), Text(update["how"]), HumanBytes(update["bytes_fetched"].get<uint64_t>()),
                    Percent(update["density"].get<double>()), Milliseconds(update["seconds"]["paused"])));
  }
  if (const auto& failure = status["failure"]; failure.is_object()) {
    facts.emplace_back("last failure",
                       fmt::format("{} ({}, {} times, last at {})", Text(failure["message"]), Text(failure["stage"]),
                                   Text(failure["count"]), Text(failure["time"])));
  }
  PrintFacts(facts);
  std::vector<std::vector<std::string>> table = {{"engine", "serves", "in rotation", "problem"}};
  for (const auto& engine : status["engines"]) {
    table.push_back({Text(engine["engine"]), Text(engine["serves"]), engine["in_rotation"] == true ? "yes" : "no",
                     Text(engine["problem"])});
  }
  PrintTable(table);
}

Status ShowAgent(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const auto status, AskAgent(args.agent, "GET", "/v1/skerry/status"));
  if (common.json) {
    PrintJson(status);
    return {};
  }
  // What an agent of another version leaves out must not end the program.
  try {
    PrintAgent(status);
  } catch (const nlohmann::json::exception& error) {
    return Fail(Code::kUnsupported, "the agent's status is not of a form that this version knows: {}", error.what());
  }
  return {};
}

Status Run(const Arguments& args, const CommonOptions& common) {
  while (true) {
    if (args.watch && !common.json && isatty(STDOUT_FILENO)) fmt::print("\x1b[H\x1b[2J");
    const Status shown = args.agent.given() ? ShowAgent(args, common) : ShowBoard(args, common);
    if (!args.watch) return shown;
    // What is not there now may come.
    if (!shown) PrintWarning(shown.error().message);
    std::fflush(stdout);
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::string WhatIsWrong(const Arguments& args) {
  if (args.board.empty() == !args.agent.given()) return "name a BOARD, or an agent by --state or --agent";
  return "";
}

}  // namespace

void AddStatus(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  Command command = program.Add("status", "Say which runs a board has and where they are, or what an agent is doing",
                                [args](const CommonOptions& common) { return Run(*args, common); });
  command.OptionalPositional("BOARD", args->board, kBoardHelp);
  args->agent.Describe(command);
  command.Flag("--watch", args->watch, "Again and again, once a second")
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Check([args] { return WhatIsWrong(*args); })
      .Example("skerry status /mnt/board\n  skerry status --state /var/lib/skerry --watch");
}

}  // namespace skerry
