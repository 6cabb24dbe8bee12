#include "commands.h"
#include "skerry/base/text.h"
#include "skerry/patch/patch.h"
#include "skerry/tensors/layout.h"
#include "terminal.h"

namespace skerry {
namespace {

struct Arguments {
  std::string patch;
  bool tensors = false;
};

struct TensorRow {
  std::string name, type;
  uint64_t units = 0, changed = 0, bytes = 0, blocks = 0, dense = 0;
};

// Sums the directory by tensor, as far as the patch names its tensors.
std::vector<TensorRow> RowsOf(const PatchHead& head) {
  std::vector<TensorRow> rows;
  // The names section lists exactly the tensors that have blocks, in order; a new tensor begins where a block is not
  // within the cells that are left of the current one.
  size_t block = 0;
  for (const NamedTensor& tensor : head.names) {
    uint64_t bits = static_cast<uint64_t>(DTypeBits(tensor.dtype));
    for (const uint64_t axis : tensor.shape) {
      if (__builtin_mul_overflow(bits, axis, &bits)) return {};
    }
    LayoutTensor described{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = bits / 8};
    TensorRow row{.name = tensor.name, .type = DescribeType(described), .units = described.units()};
    uint64_t cells = CellsOf(row.units);
    while (block < head.blocks.size() && head.blocks[block].cells <= cells) {
      const BlockEntry& entry = head.blocks[block];
      const uint64_t gap =
          row.blocks == 0 ? 0 : entry.first_cell - (head.blocks[block - 1].first_cell + head.blocks[block - 1].cells);
      if (entry.cells + gap > cells) break;
      cells -= entry.cells + gap;
      row.changed += entry.changed;
      row.bytes += entry.size;
      row.dense += entry.method == Method::kDense;
      ++row.blocks;
      ++block;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const Patch patch, Patch::Open(args.patch));
  const PatchHead& head = patch.head();
  const PatchInfo& info = head.info;
  const double density = info.units == 0 ? 0 : static_cast<double>(info.changed) / static_cast<double>(info.units);
  const std::vector<TensorRow> rows = args.tensors ? RowsOf(head) : std::vector<TensorRow>{};
  if (common.json) {
    nlohmann::ordered_json json = {{"patch", args.patch},
                                   {"format", kPatchVersion},
                                   {"patch_bytes", patch.size()},
                                   {"base_model", info.base_model.Hex()},
                                   {"target_model", info.target_model.Hex()},
                                   {"base_layout", info.base_layout.Hex()},
                                   {"target_layout", info.target_layout.Hex()},
                                   {"structural", info.structural},
                                   {"elements", info.units},
                                   {"changed", info.changed},
                                   {"density", density},
                                   {"blocks", info.blocks},
                                   {"tensors_named", head.names.size()}};
    json["side_files"] = nlohmann::ordered_json::array();
    for (const SideFileChange& file : head.side_files) {
      json["side_files"].push_back({{"path", file.path}, {"removed", !file.content.has_value()}});
    }
    if (args.tensors) {
      json["tensors"] = nlohmann::ordered_json::array();
      for (const TensorRow& row : rows) {
        json["tensors"].push_back({{"name", row.name},
                                   {"type", row.type},
                                   {"elements", row.units},
                                   {"changed", row.changed},
                                   {"bytes", row.bytes},
                                   {"blocks", row.blocks},
                                   {"dense_blocks", row.dense}});
      }
    }
    PrintJson(json);
    return {};
  }
  PrintFacts({{"patch", fmt::format("{} (format {}, {})", args.patch, kPatchVersion, HumanBytes(patch.size()))},
              {"changed", fmt::format("{} of {} elements ({}) in {} blocks", Grouped(info.changed), Grouped(info.units),
                                      Percent(density), info.blocks)},
              {"base model", info.base_model.Hex()},
              {"target model", info.target_model.Hex()},
              {"layout", info.base_layout == info.target_layout
                             ? info.base_layout.Hex()
                             : fmt::format("{} -> {}{}", info.base_layout.Short(), info.target_layout.Short(),
                                           info.structural ? " (structural)" : " (same tensors, other files)")}});
  for (const SideFileChange& file : head.side_files) {
    fmt::print("side file   {} {}\n", Printable(file.path),
               file.content ? HumanBytes(file.content->size()) : "removed");
  }
  if (args.tensors) {
    if (head.names.empty() && info.blocks > 0) {
      fmt::print("The patch names no tensors (patches on a board leave that to the layout).\n");
      return {};
    }
    std::vector<std::vector<std::string>> table = {{"tensor", "type", "changed", "density", "bytes", "a change"}};
    for (const TensorRow& row : rows) {
      table.push_back(
          {row.name, row.type, Grouped(row.changed),
           Percent(static_cast<double>(row.changed) / static_cast<double>(std::max<uint64_t>(1, row.units))),
           Grouped(row.bytes),
           fmt::format("{:.3f} B",
                       static_cast<double>(row.bytes) / static_cast<double>(std::max<uint64_t>(1, row.changed)))});
    }
    fmt::print("\n");
    PrintTable(table);
  }
  return {};
}

}  // namespace

void AddShow(CommandLine& program) {
  const auto args = std::make_shared<Arguments>();
  program.Add("show", "Say what is in a patch", [args](const CommonOptions& common) { return Run(*args, common); })
      .Positional("PATCH", args->patch, "Patch file")
      .Flag("--tensors", args->tensors, "List the changed tensors")
      .Example("skerry show step-101.skerry --tensors");
}

}  // namespace skerry
