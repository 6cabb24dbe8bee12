#include "patch_report.h"

#include "terminal.h"

namespace skerry {

void PrintPatchReport(const CommonOptions& common, const std::string& path, const std::string& level,
                      const EncodeReceipt& receipt) {
  const PatchInfo& info = receipt.info;
  const auto per_change = [&] { return static_cast<double>(receipt.patch_bytes) / static_cast<double>(info.changed); };
  const double density = info.units == 0 ? 0 : static_cast<double>(info.changed) / static_cast<double>(info.units);
  const uint64_t full = receipt.target_bytes;
  if (common.json) {
    nlohmann::ordered_json json = {
        {"patch", path},
        {"level", level},
        {"base_model", info.base_model.Hex()},
        {"target_model", info.target_model.Hex()},
        {"elements", info.units},
        {"changed", info.changed},
        {"density", density},
        {"tensors_changed", receipt.tensors_changed},
        {"side_files_changed", receipt.side_files_changed},
        {"patch_bytes", receipt.patch_bytes},
        {"checkpoint_bytes", full},
        {"seconds", {{"compare", receipt.compare_seconds}, {"encode", receipt.encode_seconds}}}};
    if (info.changed > 0) json["bytes_per_changed"] = per_change();
    PrintJson(json);
    return;
  }
  fmt::print("{}: {}{}\n", path, HumanBytes(receipt.patch_bytes),
             full == 0 ? ""
                       : fmt::format(", {:.0f} times smaller than the checkpoint",
                                     static_cast<double>(full) / static_cast<double>(receipt.patch_bytes)));
  PrintFacts({{"changed", fmt::format("{} of {} elements ({}) in {} of {} tensors", Grouped(info.changed),
                                      Grouped(info.units), Percent(density), receipt.tensors_changed, receipt.tensors)},
              {"a change", info.changed == 0 ? "-" : fmt::format("{:.3f} bytes", per_change())},
              {"side files", fmt::format("{} changed", receipt.side_files_changed)},
              {"base model", info.base_model.Hex()},
              {"target model", info.target_model.Hex()}});
}

}  // namespace skerry
