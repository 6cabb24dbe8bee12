#include "measure_bytes.h"

#include "peers.h"
#include "skerry/patch/side_files.h"

namespace skerry {
namespace {

Result<uint64_t> MeasurePeer(std::unique_ptr<Peer> peer, const char* name, const Model& before, const Model& after,
                             WorkingCopy& copy) {
  copy.CopyFrom(before);
  const ByteSpan wire = peer->Encode(before, after);
  peer->Apply(wire, *after.layout, copy);
  if (!copy.Equals(after)) return Fail(Code::kCorrupt, "{} does not rebuild the new version", name);
  return wire.size();
}

void AddOptional(std::optional<uint64_t>& sum, const std::optional<uint64_t>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

}  // namespace

Bound DeltaCost::Total() const {
  Bound sum;
  for (const auto& [dtype, cost] : dtypes) {
    sum.elements += cost.bound.elements;
    sum.changed += cost.bound.changed;
    sum.order0 += cost.bound.order0;
    sum.given_exponent += cost.bound.given_exponent;
  }
  return sum;
}

void DeltaCost::Add(const DeltaCost& other) {
  for (size_t level = 0; level < kLevels.size(); ++level) skerry[level] += other.skerry[level];
  slime += other.slime;
  nemo += other.nemo;
  positions += other.positions;
  AddOptional(patch_from, other.patch_from);
  AddOptional(bsdiff, other.bsdiff);
  for (const auto& [dtype, cost] : other.dtypes) {
    DTypeCost& mine = dtypes[dtype];
    mine.bound.elements += cost.bound.elements;
    mine.bound.changed += cost.bound.changed;
    mine.bound.order0 += cost.bound.order0;
    mine.bound.given_exponent += cost.bound.given_exponent;
    for (size_t level = 0; level < kLevels.size(); ++level) {
      mine.payload[level] += cost.payload[level];
      mine.blocks[level] += cost.blocks[level];
    }
  }
}

Result<DeltaCost> MeasureBytes(const Checkpoint& a, const Checkpoint& b, const SlowPeers& slow) {
  DeltaCost cost;
  cost.step = a.directory().filename().string() + "-" + b.directory().filename().string();
  SKERRY_ASSIGN(const Model before, Model::Of(a));
  SKERRY_ASSIGN(const Model after, Model::Of(b));
  const auto& tensors = b.layout().tensors();
  WorkingCopy copy(b.layout());

  std::map<DType, BoundCounter> counters;
  for (size_t i = 0; i < tensors.size(); ++i) {
    counters.try_emplace(tensors[i].dtype, tensors[i].dtype).first->second.Add(before.tensors[i], after.tensors[i]);
  }
  for (const auto& [dtype, counter] : counters) cost.dtypes[dtype].bound = counter.Compute();

  SKERRY_ASSIGN(const std::vector<SideFileChange> side_files, CompareSideFiles(a, b));
  for (size_t level = 0; level < kLevels.size(); ++level) {
    MemorySink sink;
    SKERRY_ASSIGN(
        const EncodeReceipt receipt,
        EncodePatch(a, b, side_files, {.level = kLevels[level], .with_names = false}, sink, Progress::None()));
    cost.skerry[level] = receipt.patch_bytes;
    SKERRY_ASSIGN(const Patch patch, Patch::FromBytes(std::move(sink.bytes())));
    SKERRY_ASSIGN(const std::vector<PlacedBlock> blocks, patch.Place(b.layout()));
    for (const PlacedBlock& block : blocks) {
      DTypeCost& mine = cost.dtypes[block.dtype];
      mine.payload[level] += block.entry.size;
      ++mine.blocks[level];
    }
    copy.CopyFrom(before);
    SKERRY_TRY(ApplyPatch(patch, blocks, before, copy));
    if (!copy.Equals(after)) return Fail(Code::kCorrupt, "Skerry does not rebuild the new version");
  }

  SKERRY_ASSIGN(cost.slime, MeasurePeer(MakeSlime(), "slime", before, after, copy));
  SKERRY_ASSIGN(cost.nemo, MeasurePeer(MakeNemo(), "NeMo", before, after, copy));
  SKERRY_ASSIGN(cost.positions, MeasurePeer(MakePositions(), "int32 + bits", before, after, copy));
  if (slow.patch_from) {
    SKERRY_ASSIGN(cost.patch_from, ZstdPatchFromBytes(a, b, 19));
  }
  if (slow.bsdiff) {
    SKERRY_ASSIGN(cost.bsdiff, BsdiffBytes(a, b, slow.scratch));
  }
  return cost;
}

}  // namespace skerry
