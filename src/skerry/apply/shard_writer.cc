#include "skerry/apply/shard_writer.h"

namespace skerry {

Result<ShardWriter> ShardWriter::Open(const Path& directory, const Layout& layout) {
  ShardWriter writer;
  writer.layout_ = &layout;
  for (const LayoutFile& file : layout.files()) {
    Shard shard;
    SKERRY_ASSIGN(shard.file, File::OpenForWriting(directory / file.name));
    SKERRY_ASSIGN(const uint64_t size, shard.file.Size());
    if (size != file.size()) {
      return Fail(Code::kCorrupt, "{} has {} bytes, but its layout says {}", shard.file.path().string(), size,
                  file.size());
    }
    if (auto mapping = MappedFile::Map(shard.file, /*writable=*/true)) {
      shard.mapping = std::move(*mapping);
      shard.mapped = true;
    }
    writer.shards_.push_back(std::move(shard));
  }
  return writer;
}

Status ShardWriter::Write(size_t tensor, uint64_t first_unit, uint64_t units, const BlockChanges& changes) {
  if (tensor >= layout_->tensors().size()) {
    return Fail(Code::kCorrupt, "tensor {} of {}", tensor, layout_->tensors().size());
  }
  const LayoutTensor& placed = layout_->tensors()[tensor];
  const auto unit = static_cast<uint64_t>(DTypeUnit(placed.dtype));
  if (changes.unit != static_cast<int>(unit) || first_unit > placed.units() || units > placed.units() - first_unit) {
    return Fail(Code::kCorrupt, "tensor '{}': units {} to {} of {} bytes do not fit its {} units of {}", placed.name,
                first_unit, first_unit + units, changes.unit, placed.units(), unit);
  }
  Shard& shard = shards_[placed.file];
  shard.dirty = true;
  const uint64_t offset = placed.offset_in_file + first_unit * unit;
  if (shard.mapped) {
    ApplyBlock(changes, shard.mapping.bytes().data() + offset);
    return {};
  }
  buffer_.resize(units * unit);
  SKERRY_TRY(shard.file.ReadAt(buffer_, offset));
  ApplyBlock(changes, buffer_.data());
  return shard.file.WriteAt(buffer_, offset);
}

Status ShardWriter::Sync() {
  for (Shard& shard : shards_) {
    if (!shard.dirty) continue;
    if (shard.mapped) SKERRY_TRY(shard.mapping.Sync());
    SKERRY_TRY(shard.file.Sync());
    shard.dirty = false;
  }
  return {};
}

}  // namespace skerry
