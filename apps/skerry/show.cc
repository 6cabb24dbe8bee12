#include <map>

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

uint64_t UnitsOf(const NamedTensor& tensor) {
  uint64_t bits = static_cast<uint64_t>(DTypeBits(tensor.dtype));
  for (const uint64_t axis : tensor.shape) {
    if (__builtin_mul_overflow(bits, axis, &bits)) return 0;
  }
  return LayoutTensor{.dtype = tensor.dtype, .bytes = bits / 8}.units();
}

std::string TypeOf(const NamedTensor& tensor) {
  return DescribeType(LayoutTensor{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
}

// How many blocks there are of a method, and what they take.
struct MethodRow {
  uint64_t blocks = 0, changed = 0, bytes = 0;
};

std::map<Method, MethodRow> MethodsOf(const PatchHead& head) {
  std::map<Method, MethodRow> rows;
  for (const BlockEntry& block : head.blocks) {
    MethodRow& row = rows[block.method];
    ++row.blocks;
    row.changed += block.changed;
    row.bytes += block.size;
  }
  return rows;
}

Status Run(const Arguments& args, const CommonOptions& common) {
  SKERRY_ASSIGN(const Patch patch, Patch::Open(args.patch));
  const PatchHead& head = patch.head();
  const PatchInfo& info = head.info;
  const double density = info.units == 0 ? 0 : static_cast<double>(info.changed) / static_cast<double>(info.units);
  const std::map<Method, MethodRow> methods = MethodsOf(head);
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
    for (const auto& [method, row] : methods) {
      json["methods"][MethodName(method)] = {{"blocks", row.blocks}, {"changed", row.changed}, {"bytes", row.bytes}};
    }
    json["side_files"] = nlohmann::ordered_json::array();
    for (const SideFileChange& file : head.side_files) {
      json["side_files"].push_back({{"path", file.path}, {"removed", !file.content.has_value()}});
    }
    if (args.tensors) {
      json["tensors"] = nlohmann::ordered_json::array();
      for (const NamedTensor& tensor : head.names) {
        json["tensors"].push_back({{"name", tensor.name},
                                   {"type", TypeOf(tensor)},
                                   {"elements", UnitsOf(tensor)},
                                   {"changed", tensor.changed}});
      }
    }
    PrintJson(json);
    return {};
  }
  std::vector<std::pair<std::string, std::string>> facts = {
      {"patch", fmt::format("{} (format {}, {})", args.patch, kPatchVersion, HumanBytes(patch.size()))},
      {"changed", fmt::format("{} of {} elements ({}) in {} blocks", Grouped(info.changed), Grouped(info.units),
                              Percent(density), info.blocks)},
      {"base model", info.base_model.Hex()},
      {"target model", info.target_model.Hex()},
      {"layout", info.base_layout == info.target_layout
                     ? info.base_layout.Hex()
                     : fmt::format("{} -> {}{}", info.base_layout.Short(), info.target_layout.Short(),
                                   info.structural ? " (structural)" : " (same tensors, other files)")}};
  for (const auto& [method, row] : methods) {
    const double each = static_cast<double>(row.bytes) / static_cast<double>(row.changed);
    facts.emplace_back(MethodName(method), fmt::format("{} changes in {} blocks, {}, {:.3f} bytes a change",
                                                       Grouped(row.changed), row.blocks, HumanBytes(row.bytes), each));
  }
  PrintFacts(facts);
  for (const SideFileChange& file : head.side_files) {
    fmt::print("side file  {} {}\n", Printable(file.path), file.content ? HumanBytes(file.content->size()) : "removed");
  }
  if (args.tensors) {
    if (head.names.empty() && info.blocks > 0) {
      fmt::print("The patch names no tensors (patches on a board leave that to the layout).\n");
      return {};
    }
    std::vector<std::vector<std::string>> table = {{"tensor", "type", "changed", "density"}};
    for (const NamedTensor& tensor : head.names) {
      const auto units = static_cast<double>(std::max<uint64_t>(1, UnitsOf(tensor)));
      table.push_back(
          {tensor.name, TypeOf(tensor), Grouped(tensor.changed), Percent(static_cast<double>(tensor.changed) / units)});
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
