#include "skerry/patch/patch.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "arrays.h"
#include "bindings.h"
#include "checkpoint.h"
#include "skerry/apply/verified_changes.h"
#include "skerry/base/parallel.h"
#include "work.h"

using namespace nb::literals;

namespace {

using skerry::Patch;
using skerry::RunChanges;
using Row = std::tuple<std::string, std::string, std::vector<uint64_t>, uint64_t>;

Patch FromBuffer(nb::handle object) {
  const PythonBuffer buffer(object);
  const skerry::ByteSpan bytes = buffer.bytes();
  return Unwrap(Patch::FromBytes({bytes.begin(), bytes.end()}));
}

nb::dict Info(const Patch& patch) {
  const skerry::PatchInfo& info = patch.info();
  nb::dict dict;
  dict["base_model"] = info.base_model.Hex();
  dict["target_model"] = info.target_model.Hex();
  dict["base_layout"] = info.base_layout.Hex();
  dict["target_layout"] = info.target_layout.Hex();
  dict["base_tensors"] = info.base_tensors.Hex();
  dict["elements"] = info.units;
  dict["changed"] = info.changed;
  dict["blocks"] = info.blocks;
  dict["structural"] = info.structural;
  dict["nbytes"] = patch.size();
  return dict;
}

std::vector<Row> Tensors(const Patch& patch) {
  std::vector<Row> rows;
  for (const skerry::NamedTensor& tensor : patch.head().names) {
    rows.emplace_back(tensor.name, std::string(skerry::DTypeName(tensor.dtype)), tensor.shape, tensor.changed);
  }
  return rows;
}

std::vector<std::tuple<std::string, bool>> SideFiles(const Patch& patch) {
  std::vector<std::tuple<std::string, bool>> files;
  for (const skerry::SideFileChange& file : patch.head().side_files) {
    files.emplace_back(file.path, file.content.has_value());
  }
  return files;
}

// What a patch does to one tensor.
struct TensorChanges {
  int unit = 1;
  std::vector<uint64_t> positions;
  skerry::Bytes values;
};

void Append(const RunChanges& run, TensorChanges& all) {
  const auto& [unit, whole, positions, values] = run.changes;
  all.unit = unit;
  for (uint64_t i = 0; whole && i < run.run.units; ++i) all.positions.push_back(run.run.first_unit + i);
  for (const uint32_t position : positions) all.positions.push_back(run.run.first_unit + position);
  all.values.insert(all.values.end(), values.begin(), values.end());
}

skerry::Result<TensorChanges> ChangesOf(const Patch& patch, const skerry::Checkpoint& base, const std::string& name,
                                        int threads) {
  if (base.layout().tensors_digest() != patch.info().base_tensors) {
    return skerry::Fail(skerry::Code::kMismatch, "{} was made for tensors {}, but the checkpoint has {}", patch.name(),
                        patch.info().base_tensors.Short(), base.layout().tensors_digest().Short());
  }
  SKERRY_ASSIGN(const skerry::Layout target, skerry::TargetLayout(patch, base.layout()));
  const int64_t found = target.Find(name);
  if (found < 0) return skerry::Fail(skerry::Code::kNotFound, "tensor '{}' is not in the patch's target", name);
  const auto ordinal = static_cast<size_t>(found);
  TensorChanges all{.unit = skerry::DTypeUnit(target.tensors()[ordinal].dtype), .positions = {}, .values = {}};
  const auto touches = [&](const skerry::BlockRun& run) { return run.tensor == ordinal; };
  SKERRY_ASSIGN(std::vector<skerry::PlacedBlock> blocks, patch.Place(target));
  std::erase_if(blocks, [&](const auto& block) { return std::ranges::none_of(block.runs, touches); });
  std::vector<int64_t> base_of;
  for (const skerry::LayoutTensor& tensor : target.tensors()) base_of.push_back(BaseOf(base.layout(), tensor));
  SKERRY_TRY(skerry::ParallelOrdered<std::vector<RunChanges>>(
      blocks.size(), threads, [&](size_t i) { return DecodeBlock(patch, blocks[i], base, base_of, target); },
      [&](size_t, const std::vector<RunChanges>& decoded) -> skerry::Status {
        for (const RunChanges& run : decoded) {
          if (touches(run.run)) Append(run, all);
        }
        return {};
      }));
  SKERRY_TRY(base.Check());
  return all;
}

nb::object ValuesOf(TensorChanges changes) {
  switch (changes.unit) {
    case 1: return FlatArrayOf<uint8_t>(std::move(changes.values));
    case 2: return FlatArrayOf<uint16_t>(std::move(changes.values));
    case 4: return FlatArrayOf<uint32_t>(std::move(changes.values));
    default: return FlatArrayOf<uint64_t>(std::move(changes.values));
  }
}

nb::tuple Changes(const Patch& patch, const HeldCheckpoint& base, const std::string& name, int64_t threads,
                  const nb::object& progress) {
  const int count = ThreadsOf(threads);
  TensorChanges changes =
      Call(progress, [&](skerry::Progress&) { return ChangesOf(patch, base.checkpoint(), name, count); });
  nb::object positions = FlatArrayOf<uint64_t>(std::move(changes.positions));
  return nb::make_tuple(positions, ValuesOf(std::move(changes)));
}

}  // namespace

void BindPatch(nb::module_& m) {
  nb::class_<Patch>(m, "Patch", "Native part of skerry.Patch.")
      .def_static(
          "open", [](const skerry::Path& path) { return Unwrap(Patch::Open(path)); }, "path"_a)
      .def_static("from_buffer", &FromBuffer, "buffer"_a, "Copies the bytes of an object with a contiguous buffer.")
      .def("info", &Info)
      .def("tensors", &Tensors, "(name, dtype, shape, changed) of each tensor that the patch names.")
      .def("side_files", &SideFiles, "(path, whether there is new content) of each that changes.")
      .def("changes", &Changes, "base"_a, "name"_a, "threads"_a, "progress"_a.none(),
           "(positions uint64, values as unsigned integers of the unit's width) of one tensor.");
}
