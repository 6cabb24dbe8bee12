#include "skerry/apply/verified_changes.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "skerry/base/parallel.h"

namespace skerry {

int64_t BaseOf(const Layout& base, const LayoutTensor& tensor) {
  const int64_t at = base.Find(tensor.name);
  if (at < 0) return -1;
  const LayoutTensor& candidate = base.tensors()[static_cast<size_t>(at)];
  return candidate.dtype == tensor.dtype && candidate.shape == tensor.shape ? at : -1;
}

Result<std::vector<RunChanges>> DecodeBlock(const Patch& patch, const PlacedBlock& block, const TensorSource& base,
                                            std::span<const int64_t> base_of, const Layout& target) {
  const auto unit = static_cast<uint64_t>(DTypeUnit(block.dtype));
  std::vector<Bytes> scratch(block.runs.size());  // used where the base is not mapped
  std::vector<ByteSpan> before;
  for (size_t r = 0; r < block.runs.size() && base_of[block.runs[r].tensor] >= 0; ++r) {
    const BlockRun& run = block.runs[r];
    SKERRY_ASSIGN(const ByteSpan bytes, base.Read(static_cast<size_t>(base_of[run.tensor]), run.first_unit * unit,
                                                  run.units * unit, scratch[r]));
    before.push_back(bytes);
  }
  return patch.Decode(block, target, before);
}

Result<Layout> TargetLayout(const Patch& patch, const Layout& base) {
  if (!patch.head().layout) {
    if (patch.info().structural || patch.info().base_layout != patch.info().target_layout) {
      return Fail(Code::kCorrupt, "{}: leads to layout {} but does not carry it", patch.name(),
                  patch.info().target_layout.Short());
    }
    return base;
  }
  auto layout = Layout::Parse(*patch.head().layout);
  if (!layout) return Annotate(std::move(layout).error(), patch.name());
  if (layout->digest() != patch.info().target_layout) {
    return Fail(Code::kCorrupt, "{}: carries layout {} but announces {}", patch.name(), layout->digest().Short(),
                patch.info().target_layout.Short());
  }
  if (!patch.info().structural && layout->tensors_digest() != patch.info().base_tensors) {
    return Fail(Code::kCorrupt, "{}: changes the tensors without saying so", patch.name());
  }
  return *std::move(layout);
}

Status CheckPlacement(const Patch& patch, const Layout& base) {
  if (base.digest() == patch.info().base_layout) return {};
  const auto is_index = [](const SideFileChange& file) { return file.path.ends_with(".safetensors.index.json"); };
  const auto& files = patch.head().side_files;
  if (!patch.head().layout && std::none_of(files.begin(), files.end(), is_index)) return {};
  return Fail(Code::kMismatch,
              "{}: made for files of layout {}, but the checkpoint's have {}, and it changes the layout or the index",
              patch.name(), patch.info().base_layout.Short(), base.digest().Short());
}

Status CheckTargetPaths(const Patch& patch, const Checkpoint& base, const Layout& target) {
  std::set<std::string> paths;
  for (const LayoutFile& file : target.files()) paths.insert(file.name);
  for (const SideFileInfo& file : base.side_files()) paths.insert(file.path);
  for (const SideFileChange& file : patch.head().side_files) {
    if (file.content) {
      paths.insert(file.path);
    } else {
      paths.erase(file.path);
    }
  }
  const Status checked = CheckNoFileIsAFolder({paths.begin(), paths.end()});
  return checked ? checked : Annotate(checked.error(), patch.name());
}

Status CheckBase(const Patch& patch, const Layout& base, std::span<const RunningDigest> base_digests) {
  const PatchInfo& info = patch.info();
  if (base.tensors_digest() != info.base_tensors) {
    std::string hint;
    for (const NamedTensor& named : patch.head().names) {
      const LayoutTensor wanted{.name = named.name, .dtype = named.dtype, .shape = named.shape};
      const int64_t at = base.Find(named.name);
      if (at < 0) {
        hint = fmt::format("; it has no tensor '{}'", named.name);
        break;
      }
      const LayoutTensor& found = base.tensors()[static_cast<size_t>(at)];
      if (!info.structural && (found.dtype != named.dtype || found.shape != named.shape)) {
        hint = fmt::format("; its tensor '{}' is {}, not {}", named.name, DescribeType(found), DescribeType(wanted));
        break;
      }
    }
    return Fail(Code::kMismatch, "{}: made for a model with tensors {}, but the checkpoint's tensors are {}{}",
                patch.name(), info.base_tensors.Short(), base.tensors_digest().Short(), hint);
  }
  const Digest model = ModelDigest(base.tensors_digest(), base_digests);
  if (model != info.base_model) {
    return Fail(Code::kMismatch, "{}: base digest {} but the checkpoint has {}: it is another version or model",
                patch.name(), info.base_model.Short(), model.Short());
  }
  return {};
}

namespace {

// Decodes blocks on several threads and hands their changes over in order.
Status DecodeBlocks(const Patch& patch, std::span<const PlacedBlock> blocks, const TensorSource& base,
                    std::span<const int64_t> base_of, const Layout& target, int threads, Progress& progress,
                    const std::function<Status(RunChanges)>& take) {
  const auto bytes_of = [&](const PlacedBlock& block) {
    uint64_t bytes = 0;
    for (const BlockRun& run : block.runs) {
      bytes += run.units * static_cast<uint64_t>(DTypeUnit(target.tensors()[run.tensor].dtype));
    }
    return bytes;
  };
  uint64_t bytes = 0;
  for (const PlacedBlock& block : blocks) bytes += bytes_of(block);
  progress.Begin("decode", bytes);
  SKERRY_TRY(ParallelOrdered<std::vector<RunChanges>>(
      blocks.size(), threads,
      [&](size_t i) -> Result<std::vector<RunChanges>> {
        auto decoded = DecodeBlock(patch, blocks[i], base, base_of, target);
        progress.Advance(bytes_of(blocks[i]));
        return decoded;
      },
      [&](size_t, std::vector<RunChanges> decoded) -> Status {
        for (RunChanges& run : decoded) SKERRY_TRY(take(std::move(run)));
        return {};
      }));
  return base.Check();
}

}  // namespace

Status DecodeChanges(const Patch& patch, const TensorSource& base, const Layout& target, int threads,
                     Progress& progress, const std::function<Status(RunChanges)>& take) {
  SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(target));
  std::vector<int64_t> base_of(target.tensors().size());
  std::iota(base_of.begin(), base_of.end(), 0);
  return DecodeBlocks(patch, blocks, base, base_of, target, threads, progress, take);
}

Result<std::vector<RunningDigest>> DecodeVerified(const Patch& patch, const TensorSource& base,
                                                  std::span<const RunningDigest> base_digests, const Layout& target,
                                                  int threads, Progress& progress,
                                                  const std::function<Status(RunChanges)>& take) {
  SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(target));
  const auto& tensors = target.tensors();
  std::vector<RunningDigest> digests(tensors.size());
  std::vector<int64_t> base_of(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    base_of[i] = BaseOf(base.layout(), tensors[i]);
    if (base_of[i] >= 0) digests[i] = base_digests[static_cast<size_t>(base_of[i])];
  }
  // What the base has not, the blocks must fill: nothing else says what its bytes are.
  std::vector<uint64_t> filled(tensors.size());
  for (const PlacedBlock& block : blocks) {
    for (const BlockRun& run : block.runs) {
      filled[run.tensor] += run.units;
      if ((base_of[run.tensor] < 0) != (base_of[block.runs.front().tensor] < 0)) {
        return Fail(Code::kCorrupt, "{}: a block holds the new tensor '{}' and one that is not", patch.name(),
                    tensors[base_of[run.tensor] < 0 ? run.tensor : block.runs.front().tensor].name);
      }
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (base_of[i] < 0 && filled[i] != tensors[i].units()) {
      return Fail(Code::kCorrupt, "{}: tensor '{}' is new, but only {} of its {} units are there", patch.name(),
                  tensors[i].name, filled[i], tensors[i].units());
    }
  }
  SKERRY_TRY(DecodeBlocks(patch, blocks, base, base_of, target, threads, progress, [&](RunChanges run) -> Status {
    digests[run.run.tensor] += run.moved;
    return take(std::move(run));
  }));
  const Digest model = ModelDigest(target.tensors_digest(), digests);
  if (model != patch.info().target_model) {
    return Fail(Code::kCorrupt,
                "{}: leads to model digest {} but announces {}: the checkpoint's bytes are not what its state says, or "
                "the patch is damaged",
                patch.name(), model.Short(), patch.info().target_model.Short());
  }
  return digests;
}

}  // namespace skerry
