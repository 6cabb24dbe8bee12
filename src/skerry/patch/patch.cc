#include "skerry/patch/patch.h"

#include <algorithm>

#include "skerry/base/mapped_file.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/sparse_flat.h"
#include "skerry/patch/sparse_magnitude.h"

namespace skerry {
namespace {

class InMemory : public PatchBytes {
 public:
  explicit InMemory(Bytes bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<ByteSpan> Read(uint64_t offset, uint64_t length, Bytes&) const override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) {
      return Fail(Code::kCorrupt, "bytes {} to {} of {}", offset, offset + length, bytes_.size());
    }
    return ByteSpan(bytes_).subspan(offset, length);
  }

 private:
  Bytes bytes_;
};

class OnDisk : public PatchBytes {
 public:
  explicit OnDisk(FileReader reader) : reader_(std::move(reader)) {}
  uint64_t size() const override { return reader_.size(); }
  Result<ByteSpan> Read(uint64_t offset, uint64_t length, Bytes& scratch) const override {
    return reader_.Read(offset, length, scratch);
  }

 private:
  FileReader reader_;
};

}  // namespace

Result<Patch> Patch::From(std::unique_ptr<PatchBytes> bytes, std::string name) {
  Patch patch;
  patch.bytes_ = std::move(bytes);
  patch.name_ = std::move(name);
  auto head = ReadPatchHead(*patch.bytes_);
  if (!head) return Annotate(std::move(head).error(), patch.name_);
  patch.head_ = *std::move(head);
  return patch;
}

Result<Patch> Patch::Open(const Path& path) {
  SKERRY_ASSIGN(FileReader reader, FileReader::Open(path));
  return From(std::make_unique<OnDisk>(std::move(reader)), path.string());
}

Result<Patch> Patch::FromBytes(Bytes bytes) { return From(std::make_unique<InMemory>(std::move(bytes)), "patch"); }

Result<std::vector<PlacedBlock>> Patch::Place(const Layout& target) const {
  if (target.total_units() != head_.info.units) {
    return Fail(Code::kCorrupt, "{}: made for {} units, but the layout has {}", name_, head_.info.units,
                target.total_units());
  }
  const CellOrder order(target);
  std::vector<PlacedBlock> placed;
  placed.reserve(head_.blocks.size());
  for (const BlockEntry& entry : head_.blocks) {
    auto runs = order.RunsOf(target, entry.first_cell, entry.cells);
    if (!runs) return Annotate(std::move(runs).error(), fmt::format("{}: block {}", name_, placed.size()));
    PlacedBlock block{.entry = entry, .dtype = target.tensors()[runs->front().tensor].dtype};
    for (const BlockRun& run : *runs) block.units += run.units;
    block.runs = *std::move(runs);
    if (entry.changed > block.units) {
      return Fail(Code::kCorrupt, "{}: block {}: {} changes among {} units", name_, placed.size(), entry.changed,
                  block.units);
    }
    placed.push_back(std::move(block));
  }
  return placed;
}

namespace {

// Hands a block's changes out to its runs.
std::vector<RunChanges> Split(const PlacedBlock& block, BlockChanges changes, std::span<const RunningDigest> moved) {
  std::vector<RunChanges> split;
  if (block.runs.size() == 1) {
    split.push_back({.run = block.runs.front(), .changes = std::move(changes), .moved = moved.front()});
    return split;
  }
  const auto unit = static_cast<size_t>(changes.unit);
  uint64_t first = 0;
  size_t at = 0;  // of the values
  for (size_t r = 0; r < block.runs.size(); ++r) {
    const BlockRun& run = block.runs[r];
    RunChanges part{.run = run, .changes = {.unit = changes.unit, .all = changes.all}, .moved = moved[r]};
    size_t count = run.units;
    if (!changes.all) {
      const auto begin = changes.positions.begin() + static_cast<ptrdiff_t>(at);
      const auto end = std::lower_bound(begin, changes.positions.end(), first + run.units);
      count = static_cast<size_t>(end - begin);
      part.changes.positions.assign(begin, end);
      for (uint32_t& position : part.changes.positions) position -= static_cast<uint32_t>(first);
    }
    const auto values = ByteSpan(changes.values).subspan(at * unit, count * unit);
    part.changes.values.assign(values.begin(), values.end());
    if (count > 0) split.push_back(std::move(part));
    at += count;
    first += run.units;
  }
  return split;
}

}  // namespace

Result<std::vector<RunChanges>> Patch::Decode(const PlacedBlock& block, const Layout& target,
                                              std::span<const ByteSpan> before) const {
  const int unit = DTypeUnit(block.dtype);
  thread_local Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan payload, bytes_->Read(block.entry.offset, block.entry.size, scratch));
  BlockChanges changes{.unit = unit};
  std::vector<RunningDigest> moved(block.runs.size());
  std::vector<OldRun> runs;
  for (size_t r = 0; r < before.size(); ++r) {
    runs.push_back({.bytes = before[r], .first_word = block.runs[r].first_unit * static_cast<uint64_t>(unit) / 8});
  }
  const auto decode = [&]() -> Status {
    switch (block.entry.method) {
      case Method::kDense: {
        SKERRY_TRY(DecodeDense(payload, block.units, block.dtype, changes));
        ByteSpan rest(changes.values);
        for (size_t r = 0; r < block.runs.size(); ++r) {
          const BlockRun& run = block.runs[r];
          const uint64_t bytes = run.units * static_cast<uint64_t>(unit);
          const uint64_t first_word = run.first_unit * static_cast<uint64_t>(unit) / 8;
          moved[r] = DigestWords(rest.first(bytes), first_word);
          if (!before.empty()) moved[r] = moved[r] - DigestWords(before[r], first_word);
          rest = rest.subspan(bytes);
        }
        return {};
      }
      case Method::kSparseFlat: {
        const auto table = head_.tables.find(block.dtype);
        if (table == head_.tables.end()) return Fail(Code::kCorrupt, "no value table for {}", DTypeName(block.dtype));
        if (before.empty()) return Fail(Code::kCorrupt, "a sparse block of a tensor that the base has not");
        return DecodeSparseFlat(payload, block.entry.changed, block.dtype, table->second, runs, changes, moved);
      }
      case Method::kSparseMagnitude: {
        const auto model = head_.magnitudes.find(block.dtype);
        if (model == head_.magnitudes.end()) {
          return Fail(Code::kCorrupt, "no magnitude classes for {}", DTypeName(block.dtype));
        }
        if (before.empty()) return Fail(Code::kCorrupt, "a sparse block of a tensor that the base has not");
        return DecodeSparseMagnitude(payload, block.entry.changed, block.dtype, model->second, runs, changes, moved);
      }
    }
    return Fail(Code::kCorrupt, "unknown method");
  };
  Status decoded = decode();
  if (decoded && BlockChecksum(changes) != block.entry.checksum) {
    decoded = Fail(Code::kCorrupt, "checksum {:08x}, expected {:08x}: the patch is damaged or the base is another one",
                   BlockChecksum(changes), block.entry.checksum);
  }
  if (!decoded) {
    const BlockRun &first = block.runs.front(), &last = block.runs.back();
    return Annotate(
        std::move(decoded).error(),
        fmt::format("{}: tensor '{}' unit {} to tensor '{}' unit {}", name_, target.tensors()[first.tensor].name,
                    first.first_unit, target.tensors()[last.tensor].name, last.first_unit + last.units));
  }
  return Split(block, std::move(changes), moved);
}

}  // namespace skerry
