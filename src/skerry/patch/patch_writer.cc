#include <zstd.h>

#include "skerry/patch/patch_file.h"

namespace skerry {
namespace {

constexpr int kZstdLevel = 19;  // small metadata, read many times

void WriteCompressed(ByteWriter& writer, ByteSpan raw) {
  Bytes packed(ZSTD_compressBound(raw.size()));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), kZstdLevel);
  writer.Varint(raw.size());
  writer.Raw(ByteSpan(packed).first(size));
}

Bytes InfoSection(const PatchInfo& info) {
  Bytes out;
  ByteWriter writer(out);
  for (const Digest* digest :
       {&info.base_model, &info.target_model, &info.base_layout, &info.target_layout, &info.base_tensors}) {
    writer.Raw(digest->bytes);
  }
  writer.Varint(info.units);
  writer.Varint(info.changed);
  writer.Varint(info.blocks);
  return out;
}

template <typename T>
void WriteByDType(ByteWriter& writer, const std::map<DType, T>& entries) {
  writer.Varint(entries.size());
  for (const auto& [dtype, entry] : entries) {
    writer.Int<uint8_t>(static_cast<uint8_t>(dtype));
    entry.Serialize(writer);
  }
}

Bytes TablesSection(const PatchHead& head) {
  Bytes out;
  ByteWriter writer(out);
  WriteByDType(writer, head.tables);
  WriteByDType(writer, head.magnitudes);
  return out;
}

Bytes DirectorySection(const std::vector<BlockEntry>& blocks) {
  Bytes out;
  ByteWriter writer(out);
  uint64_t next_cell = 0;
  for (const BlockEntry& block : blocks) {
    writer.Varint(block.first_cell - next_cell);
    writer.Int<uint8_t>(static_cast<uint8_t>(block.cells - 1));
    writer.Int<uint8_t>(static_cast<uint8_t>(block.method));
    writer.Varint(block.changed);
    writer.Varint(block.size);
    writer.Int<uint32_t>(block.checksum);
    next_cell = block.first_cell + block.cells;
  }
  return out;
}

Bytes NamesSection(const std::vector<NamedTensor>& names) {
  Bytes raw;
  ByteWriter writer(raw);
  writer.Varint(names.size());
  uint64_t next_ordinal = 0;
  for (const NamedTensor& tensor : names) {
    writer.Varint(tensor.ordinal - next_ordinal);
    writer.Text(tensor.name);
    writer.Int<uint8_t>(static_cast<uint8_t>(tensor.dtype));
    writer.Varint(tensor.shape.size());
    for (const uint64_t axis : tensor.shape) writer.Varint(axis);
    writer.Varint(tensor.changed);
    next_ordinal = tensor.ordinal + 1;
  }
  Bytes out;
  ByteWriter compressed(out);
  WriteCompressed(compressed, raw);
  return out;
}

Bytes SideFilesSection(const std::vector<SideFileChange>& files) {
  Bytes raw;
  ByteWriter writer(raw);
  writer.Varint(files.size());
  for (const SideFileChange& file : files) {
    writer.Text(file.path);
    writer.Int<uint8_t>(file.content ? 1 : 0);
    if (file.content) {
      writer.Varint(file.content->size());
      writer.Raw(*file.content);
    }
  }
  Bytes out;
  ByteWriter compressed(out);
  WriteCompressed(compressed, raw);
  return out;
}

Bytes BoxesSection(const std::vector<TensorBox>& boxes) {
  Bytes raw;
  ByteWriter writer(raw);
  writer.Varint(boxes.size());
  for (const TensorBox& box : boxes) {
    writer.Varint(box.tensor);
    writer.Varint(box.start.size());
    for (size_t axis = 0; axis < box.start.size(); ++axis) {
      writer.Varint(box.start[axis]);
      writer.Varint(box.size[axis]);
    }
  }
  Bytes out;
  ByteWriter compressed(out);
  WriteCompressed(compressed, raw);
  return out;
}

}  // namespace

Status PatchWriter::Append(ByteSpan bytes) {
  SKERRY_TRY(sink_.Append(bytes));
  written_ += bytes.size();
  return {};
}

Status PatchWriter::Begin(uint64_t features) {
  ByteWriter writer(header_);
  writer.Raw(AsBytes(kPatchMagic));
  writer.Int<uint32_t>(kPatchVersion);
  writer.Int<uint32_t>(0);
  writer.Int<uint64_t>(features);
  return Append(header_);
}

Status PatchWriter::AddBlock(BlockEntry entry, ByteSpan payload) {
  entry.offset = written_;
  entry.size = payload.size();
  blocks_.push_back(entry);
  return Append(payload);
}

Status PatchWriter::Finish(PatchHead head) {
  const uint64_t blocks_bytes = written_ - kPatchHeaderBytes;
  head.info.blocks = blocks_.size();

  std::vector<std::pair<Section, Bytes>> sections;
  sections.emplace_back(Section::kInfo, InfoSection(head.info));
  if (!head.tables.empty() || !head.magnitudes.empty()) sections.emplace_back(Section::kTables, TablesSection(head));
  if (!blocks_.empty()) sections.emplace_back(Section::kDirectory, DirectorySection(blocks_));
  if (!head.names.empty()) sections.emplace_back(Section::kNames, NamesSection(head.names));
  if (head.layout) {
    Bytes out;
    ByteWriter writer(out);
    WriteCompressed(writer, *head.layout);
    sections.emplace_back(Section::kLayout, std::move(out));
  }
  if (!head.side_files.empty()) sections.emplace_back(Section::kSideFiles, SideFilesSection(head.side_files));
  if (!head.boxes.empty()) sections.emplace_back(Section::kBoxes, BoxesSection(head.boxes));

  Bytes table;
  ByteWriter writer(table);
  for (const auto& [kind, bytes] : sections) {
    SKERRY_TRY(Append(bytes));
    writer.Int<uint8_t>(static_cast<uint8_t>(kind));
    writer.Int<uint64_t>(bytes.size());
    writer.Int<uint64_t>(Xxh3(bytes));
  }
  SKERRY_TRY(Append(table));

  // The table's checksum covers the file's header and the footer's own numbers too.
  Bytes footer;
  ByteWriter end(footer);
  end.Int<uint64_t>(blocks_bytes);
  end.Int<uint32_t>(static_cast<uint32_t>(sections.size()));
  Bytes covered = header_;
  covered.insert(covered.end(), table.begin(), table.end());
  covered.insert(covered.end(), footer.begin(), footer.end());
  end.Int<uint64_t>(Xxh3(covered));
  end.Raw(AsBytes(kPatchEndMagic));
  return Append(footer);
}

}  // namespace skerry
