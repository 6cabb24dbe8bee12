#include "commands.h"
#include "open_board.h"
#include "skerry/base/text.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string board;
  std::vector<std::string> trust_keys;
};

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

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const Board board, OpenBoard(args.board, args.trust_keys));
  SKERRY_ASSIGN(const std::vector<RunId> runs, board.Runs());
  std::vector<RunStatus> rows;
  std::optional<Error> worst;
  for (const RunId& run : runs) {
    RunStatus row{.name = run.str()};
    const auto at = board.ReadHead(run);
    if (at) {
      row.head = at->head;
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

}  // namespace

void AddStatus(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program
      .Add("status", "Say which runs a board has and where they are",
           [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("BOARD", args->board, kBoardHelp)
      .Option("--trust-key", args->trust_keys, kTrustKeyHelp)
      .Example("skerry status /mnt/board");
}

}  // namespace skerry
