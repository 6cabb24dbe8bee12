#include "skerry/apply/patched_source.h"

#include <algorithm>

#include "skerry/apply/verified_changes.h"

namespace skerry {
namespace {

constexpr uint64_t kRecentBytes = 64 << 20;

uint64_t BytesOf(const std::vector<RunChanges>& runs) {
  uint64_t bytes = 0;
  for (const RunChanges& run : runs) {
    bytes += run.changes.positions.size() * sizeof(uint32_t) + run.changes.values.size();
  }
  return bytes;
}

// Writes the part of a run's changes that lies in [first_unit, first_unit + units) of its tensor to `bytes`.
void ApplyPart(const RunChanges& part, uint64_t first_unit, uint64_t units, std::byte* bytes) {
  const auto unit = static_cast<size_t>(part.changes.unit);
  const BlockChanges& changes = part.changes;
  const uint64_t from = std::max(first_unit, part.run.first_unit);
  const uint64_t to = std::min(first_unit + units, part.run.first_unit + part.run.units);
  if (from >= to) return;
  if (changes.all) {
    std::memcpy(bytes + (from - first_unit) * unit, changes.values.data() + (from - part.run.first_unit) * unit,
                (to - from) * unit);
    return;
  }
  auto at = std::lower_bound(changes.positions.begin(), changes.positions.end(), from - part.run.first_unit);
  for (; at != changes.positions.end() && part.run.first_unit + *at < to; ++at) {
    const auto index = static_cast<size_t>(at - changes.positions.begin());
    std::memcpy(bytes + (part.run.first_unit + *at - first_unit) * unit, changes.values.data() + index * unit, unit);
  }
}

}  // namespace

Result<std::unique_ptr<PatchedSource>> PatchedSource::Open(const TensorSource& base, const Patch& patch,
                                                           Layout target) {
  std::unique_ptr<PatchedSource> source(new PatchedSource(base, patch, std::move(target)));
  for (const LayoutTensor& tensor : source->target_.tensors()) {
    source->base_of_.push_back(BaseOf(base.layout(), tensor));
  }
  SKERRY_ASSIGN(source->blocks_, patch.Place(source->target_));
  source->blocks_of_.resize(source->target_.tensors().size());
  for (size_t i = 0; i < source->blocks_.size(); ++i) {
    for (const BlockRun& run : source->blocks_[i].runs) source->blocks_of_[run.tensor].push_back(i);
  }
  return source;
}

Result<PatchedSource::Decoded> PatchedSource::DecodedBlock(size_t index) const {
  {
    const std::lock_guard lock(mutex_);
    for (auto it = recent_.begin(); it != recent_.end(); ++it) {
      if (it->first != index) continue;
      recent_.splice(recent_.begin(), recent_, it);
      return it->second;
    }
  }
  SKERRY_ASSIGN(std::vector<RunChanges> runs, DecodeBlock(patch_, blocks_[index], base_, base_of_, target_));
  auto decoded = std::make_shared<const std::vector<RunChanges>>(std::move(runs));
  const std::lock_guard lock(mutex_);
  recent_.emplace_front(index, decoded);
  recent_bytes_ += BytesOf(*decoded);
  while (recent_bytes_ > kRecentBytes && recent_.size() > 1) {
    recent_bytes_ -= BytesOf(*recent_.back().second);
    recent_.pop_back();
  }
  return decoded;
}

Result<ByteSpan> PatchedSource::Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const {
  const LayoutTensor& tensor = target_.tensors()[ordinal];
  const auto unit = static_cast<uint64_t>(DTypeUnit(tensor.dtype));
  if (offset > tensor.bytes || length > tensor.bytes - offset || offset % unit != 0 || length % unit != 0) {
    return Fail(Code::kInvalid, "tensor '{}' has {} bytes in units of {}, but bytes {} to {} were asked for",
                tensor.name, tensor.bytes, unit, offset, offset + length);
  }
  const uint64_t first_unit = offset / unit, units = length / unit;
  std::vector<Decoded> over;
  for (const size_t index : blocks_of_[ordinal]) {
    const auto& runs = blocks_[index].runs;
    const bool overlaps = std::any_of(runs.begin(), runs.end(), [&](const BlockRun& run) {
      return run.tensor == ordinal && run.first_unit < first_unit + units && first_unit < run.first_unit + run.units;
    });
    if (!overlaps) continue;
    SKERRY_ASSIGN(Decoded decoded, DecodedBlock(index));
    over.push_back(std::move(decoded));
  }
  if (over.empty() && base_of_[ordinal] >= 0) {
    return base_.Read(static_cast<size_t>(base_of_[ordinal]), offset, length, scratch);
  }
  Bytes bytes(length);
  if (base_of_[ordinal] >= 0) {
    SKERRY_ASSIGN(const ByteSpan old, base_.Read(static_cast<size_t>(base_of_[ordinal]), offset, length, scratch));
    std::copy(old.begin(), old.end(), bytes.begin());
  }
  for (const Decoded& decoded : over) {
    for (const RunChanges& part : *decoded) {
      if (part.run.tensor == ordinal) ApplyPart(part, first_unit, units, bytes.data());
    }
  }
  scratch = std::move(bytes);
  return ByteSpan(scratch);
}

}  // namespace skerry
