#include "skerry/patch/patch.h"

#include "skerry/base/mapped_file.h"
#include "skerry/patch/dense.h"
#include "skerry/patch/sparse_flat.h"

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
  std::vector<PlacedBlock> placed;
  placed.reserve(head_.blocks.size());
  const auto& tensors = target.tensors();
  size_t tensor = 0;
  uint64_t tensor_first_cell = 0;
  for (const BlockEntry& entry : head_.blocks) {
    while (tensor < tensors.size() && entry.first_cell >= tensor_first_cell + CellsOf(tensors[tensor].units())) {
      tensor_first_cell += CellsOf(tensors[tensor].units());
      ++tensor;
    }
    if (tensor == tensors.size() ||
        entry.first_cell + entry.cells > tensor_first_cell + CellsOf(tensors[tensor].units())) {
      return Fail(Code::kCorrupt, "{}: block {} does not lie within one tensor", name_, placed.size());
    }
    PlacedBlock block{.entry = entry, .tensor = tensor};
    block.first_unit = (entry.first_cell - tensor_first_cell) * kCellUnits;
    block.units = std::min<uint64_t>(uint64_t{entry.cells} * kCellUnits, tensors[tensor].units() - block.first_unit);
    if (entry.changed > block.units) {
      return Fail(Code::kCorrupt, "{}: tensor '{}': {} changes among {} units", name_, tensors[tensor].name,
                  entry.changed, block.units);
    }
    placed.push_back(block);
  }
  return placed;
}

Status Patch::Decode(const PlacedBlock& block, const LayoutTensor& tensor, ByteSpan before, BlockChanges& changes,
                     RunningDigest& moved) const {
  const uint64_t first_word = block.first_unit * static_cast<uint64_t>(DTypeUnit(tensor.dtype)) / 8;
  moved = {};
  thread_local Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan payload, bytes_->Read(block.entry.offset, block.entry.size, scratch));
  changes.unit = DTypeUnit(tensor.dtype);
  const auto decode = [&]() -> Status {
    if (block.entry.method == Method::kDense) {
      SKERRY_TRY(DecodeDense(payload, block.units, changes));
      moved = DigestWords(changes.values, first_word) - DigestWords(before, first_word);
      return {};
    }
    const auto table = head_.tables.find(tensor.dtype);
    if (table == head_.tables.end()) return Fail(Code::kCorrupt, "no value table for {}", DTypeName(tensor.dtype));
    if (before.empty()) return Fail(Code::kCorrupt, "a sparse block of a tensor that the base has not");
    return DecodeSparseFlat(payload, block.units, block.entry.changed, tensor.dtype, table->second, before, first_word,
                            changes, moved);
  };
  Status decoded = decode();
  if (decoded && BlockChecksum(changes) != block.entry.checksum) {
    decoded = Fail(Code::kCorrupt, "checksum {:08x}, expected {:08x}: the patch is damaged or the base is another one",
                   BlockChecksum(changes), block.entry.checksum);
  }
  if (!decoded) {
    return Annotate(std::move(decoded).error(), fmt::format("{}: tensor '{}', units {} to {}", name_, tensor.name,
                                                            block.first_unit, block.first_unit + block.units));
  }
  return {};
}

}  // namespace skerry
