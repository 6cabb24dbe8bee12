#include "skerry/apply/shard_files.h"

namespace skerry {

Result<ShardFiles> ShardFiles::Open(const Path& directory, Layout layout) {
  ShardFiles shards;
  shards.layout_ = std::move(layout);
  for (const LayoutFile& file : shards.layout_.files()) {
    Shard shard;
    std::error_code error;
    if (std::filesystem::is_symlink(directory / file.name, error)) {
      return Fail(Code::kInvalid, "{} is a link (into a hub cache?): writing in place would change what others see",
                  (directory / file.name).string());
    }
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
    shards.shards_.push_back(std::move(shard));
  }
  return shards;
}

Result<ByteSpan> ShardFiles::Read(size_t ordinal, uint64_t offset, uint64_t length, Bytes& scratch) const {
  const LayoutTensor& tensor = layout_.tensors()[ordinal];
  if (offset > tensor.bytes || length > tensor.bytes - offset) {
    return Fail(Code::kInvalid, "tensor '{}' has {} bytes, but bytes {} to {} were asked for", tensor.name,
                tensor.bytes, offset, offset + length);
  }
  const Shard& shard = shards_[tensor.file];
  if (shard.mapped) {
    shard.mapping.Prefault(tensor.offset_in_file + offset, length);
    return ByteSpan(shard.mapping.bytes().subspan(tensor.offset_in_file + offset, length));
  }
  scratch.resize(length);
  SKERRY_TRY(shard.file.ReadAt(scratch, tensor.offset_in_file + offset));
  return ByteSpan(scratch);
}

Status ShardFiles::Check() const {
  for (const Shard& shard : shards_) SKERRY_TRY(shard.mapping.Check());
  return {};
}

Status ShardFiles::Write(size_t ordinal, uint64_t first_unit, uint64_t units, const BlockChanges& changes) {
  if (ordinal >= layout_.tensors().size()) {
    return Fail(Code::kCorrupt, "tensor {} of {}", ordinal, layout_.tensors().size());
  }
  const LayoutTensor& placed = layout_.tensors()[ordinal];
  const auto unit = static_cast<uint64_t>(DTypeUnit(placed.dtype));
  if (changes.unit != static_cast<int>(unit) || first_unit > placed.units() || units > placed.units() - first_unit) {
    return Fail(Code::kCorrupt, "tensor '{}': units {} to {} of {} bytes do not fit its {} units of {}", placed.name,
                first_unit, first_unit + units, changes.unit, placed.units(), unit);
  }
  Shard& shard = shards_[placed.file];
  *shard.dirty = true;
  const uint64_t offset = placed.offset_in_file + first_unit * unit;
  if (shard.mapped) {
    ApplyBlock(changes, shard.mapping.bytes().data() + offset);
    return {};
  }
  Bytes buffer(units * unit);
  SKERRY_TRY(shard.file.ReadAt(buffer, offset));
  ApplyBlock(changes, buffer.data());
  return shard.file.WriteAt(buffer, offset);
}

Status ShardFiles::Sync() {
  for (Shard& shard : shards_) {
    if (!*shard.dirty) continue;
    if (shard.mapped) SKERRY_TRY(shard.mapping.Sync());
    SKERRY_TRY(shard.file.Sync());
    *shard.dirty = false;
  }
  return {};
}

}  // namespace skerry
