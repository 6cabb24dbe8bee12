#include <zstd.h>

#include <algorithm>

#include "skerry/base/text.h"
#include "skerry/patch/patch_file.h"
#include "skerry/patch/zstd_frame.h"
#include "skerry/tensors/layout.h"
#include "skerry/tensors/safetensors.h"

namespace skerry {
namespace {

// Varint of the raw size, then one zstd frame. Never allocates more than `limit`.
Result<Bytes> ReadCompressed(ByteSpan section, uint64_t limit, std::string_view what) {
  ByteReader reader(section);
  const uint64_t size = reader.Varint();
  if (!reader.ok() || size > limit)
    return Fail(Code::kCorrupt, "{}: {} bytes are over the limit of {}", what, size, limit);
  const ByteSpan packed = reader.Raw(reader.remaining());
  // The frame's own idea of its content must agree before anything of that size is allocated.
  if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != size) {
    return Fail(Code::kCorrupt, "{}: is not a zstd frame of {} bytes", what, size);
  }
  Bytes raw(size);
  if (!DecompressFrame(packed, raw)) return Fail(Code::kCorrupt, "{}: damaged zstd frame", what);
  return raw;
}

Status ParseInfo(ByteSpan section, PatchInfo& info) {
  ByteReader reader(section);
  for (Digest* digest :
       {&info.base_model, &info.target_model, &info.base_layout, &info.target_layout, &info.base_tensors}) {
    const ByteSpan bytes = reader.Raw(Digest::kSize);
    std::copy(bytes.begin(), bytes.end(), digest->bytes.begin());
  }
  info.units = reader.Varint();
  info.changed = reader.Varint();
  info.blocks = reader.Varint();
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "malformed info section");
  if (info.changed > info.units) {
    return Fail(Code::kCorrupt, "{} changes among {} units", info.changed, info.units);
  }
  return {};
}

// `parse(dtype)` reads one entry.
template <typename T, typename Parse>
Status ParseByDType(ByteReader& reader, std::map<DType, T>& entries, Parse parse) {
  const uint64_t count = reader.Varint();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    const auto code = reader.Int<uint8_t>();
    const auto dtype = DTypeFromCode(code);
    if (!dtype || (!entries.empty() && *dtype <= entries.rbegin()->first)) {
      return Fail(Code::kCorrupt, "table for dtype code {} is unknown, repeated or out of order", code);
    }
    SKERRY_ASSIGN(T entry, parse(*dtype));
    entries.emplace(*dtype, std::move(entry));
  }
  return {};
}

Status ParseTables(ByteSpan section, PatchHead& head) {
  ByteReader reader(section);
  SKERRY_TRY(ParseByDType(reader, head.tables, [&](DType) { return SymbolTable::Parse(reader); }));
  SKERRY_TRY(ParseByDType(reader, head.magnitudes, [&](DType dtype) -> Result<MagnitudeModel> {
    const auto view = MagnitudeViewOf(dtype);
    if (!view) return Fail(Code::kCorrupt, "magnitude classes for {}, which has no magnitude", DTypeName(dtype));
    return MagnitudeModel::Parse(reader, *view);
  }));
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "malformed tables section");
  return {};
}

Status ParseDirectory(ByteSpan section, const PatchInfo& info, uint64_t blocks_bytes, std::vector<BlockEntry>& blocks) {
  ByteReader reader(section);
  constexpr uint64_t kMinEntryBytes = 9;
  if (info.blocks > section.size() / kMinEntryBytes) {
    return Fail(Code::kCorrupt, "{} blocks can't stand in a directory of {} bytes", info.blocks, section.size());
  }
  blocks.reserve(info.blocks);
  uint64_t next_cell = 0, offset = kPatchHeaderBytes, changed = 0;
  while (reader.remaining() > 0) {
    BlockEntry block;
    const uint64_t skip = reader.Varint();
    block.cells = 1u + reader.Int<uint8_t>();
    const auto method = reader.Int<uint8_t>();
    const uint64_t count = reader.Varint();
    block.size = reader.Varint();
    block.checksum = reader.Int<uint32_t>();
    block.offset = offset;
    if (!reader.ok()) return Fail(Code::kCorrupt, "malformed directory entry {}", blocks.size());
    if (method > static_cast<uint8_t>(Method::kSparseMagnitude)) {
      return Fail(Code::kCorrupt, "block {} has the unknown method {}", blocks.size(), method);
    }
    block.method = static_cast<Method>(method);
    if (block.cells > kMaxCellsPerBlock || count == 0 || count > uint64_t{block.cells} * kCellUnits) {
      return Fail(Code::kCorrupt, "block {} has {} changes in {} cells", blocks.size(), count, block.cells);
    }
    block.changed = static_cast<uint32_t>(count);
    // A model has at most one cell for each of its units, so cells are bounded by units, and nothing here overflows.
    if (skip > info.units - next_cell || block.cells > info.units - next_cell - skip ||
        block.size > blocks_bytes - (offset - kPatchHeaderBytes)) {
      return Fail(Code::kCorrupt, "block {} lies outside the model or the file", blocks.size());
    }
    block.first_cell = next_cell + skip;
    next_cell = block.first_cell + block.cells;
    offset += block.size;
    changed += count;
    blocks.push_back(block);
  }
  if (!reader.ok() || blocks.size() != info.blocks) {
    return Fail(Code::kCorrupt, "the directory has {} blocks, but {} are announced", blocks.size(), info.blocks);
  }
  if (changed != info.changed) {
    return Fail(Code::kCorrupt, "the blocks hold {} changes, but {} are announced", changed, info.changed);
  }
  if (offset != kPatchHeaderBytes + blocks_bytes) {
    return Fail(Code::kCorrupt, "the blocks fill {} bytes of {}", offset - kPatchHeaderBytes, blocks_bytes);
  }
  return {};
}

Status ParseNames(ByteSpan section, const PatchInfo& info, std::vector<NamedTensor>& names) {
  SKERRY_ASSIGN(const Bytes raw, ReadCompressed(section, kMaxNamesSectionBytes, "names section"));
  ByteReader reader(raw);
  const uint64_t count = reader.Varint();
  uint64_t next_ordinal = 0;
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    NamedTensor tensor;
    tensor.ordinal = next_ordinal + reader.Varint();
    tensor.name = std::string(reader.Text(kMaxTensorNameBytes));
    const auto dtype = DTypeFromCode(reader.Int<uint8_t>());
    const uint64_t rank = reader.Varint();
    if (!dtype || rank > kMaxRank || tensor.ordinal < next_ordinal || !IsUtf8(tensor.name)) reader.Fail();
    for (uint64_t axis = 0; axis < rank && reader.ok(); ++axis) tensor.shape.push_back(reader.Varint());
    tensor.changed = reader.Varint();
    if (tensor.changed > info.changed) reader.Fail();
    if (!reader.ok()) break;
    tensor.dtype = *dtype;
    next_ordinal = tensor.ordinal + 1;
    names.push_back(std::move(tensor));
  }
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "malformed names section");
  return {};
}

Status ParseSideFiles(ByteSpan section, std::vector<SideFileChange>& files) {
  SKERRY_ASSIGN(const Bytes raw, ReadCompressed(section, kMaxSideFilesSectionBytes, "side files section"));
  ByteReader reader(raw);
  const uint64_t count = reader.Varint();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    SideFileChange file;
    file.path = std::string(reader.Text(1024));
    const auto present = reader.Int<uint8_t>();
    if (present > 1) reader.Fail();
    if (present == 1) file.content = ToBytes(reader.Raw(reader.Varint()));
    if (!reader.ok()) break;
    SKERRY_TRY(CheckRelativePath(file.path));
    if (file.path.ends_with(".safetensors")) {
      return Fail(Code::kCorrupt, "'{}' can't travel as a side file", file.path);
    }
    if (!files.empty() && file.path <= files.back().path) {
      return Fail(Code::kCorrupt, "side file '{}' is repeated or out of order", file.path);
    }
    files.push_back(std::move(file));
  }
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "malformed side files section");
  std::vector<std::string> kept;
  for (const SideFileChange& file : files) {
    if (file.content) kept.push_back(file.path);
  }
  return CheckNoFileIsAFolder(kept);
}

Status ParseBoxes(ByteSpan section, std::vector<TensorBox>& boxes) {
  SKERRY_ASSIGN(const Bytes raw, ReadCompressed(section, kMaxBoxesSectionBytes, "boxes section"));
  ByteReader reader(raw);
  const uint64_t count = reader.Varint();
  if (count > kMaxBoxes) return Fail(Code::kCorrupt, "{} boxes are over the limit of {}", count, kMaxBoxes);
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    TensorBox box{.tensor = reader.Varint(), .start = {}, .size = {}};
    const uint64_t rank = reader.Varint();
    if (rank > kMaxRank) return Fail(Code::kCorrupt, "box {} has {} axes, more than {}", i, rank, kMaxRank);
    for (uint64_t axis = 0; axis < rank; ++axis) {
      box.start.push_back(reader.Varint());
      box.size.push_back(reader.Varint());
    }
    boxes.push_back(std::move(box));
  }
  if (!reader.AtEnd()) return Fail(Code::kCorrupt, "malformed boxes section");
  return {};
}

uint64_t SectionLimit(Section kind) {
  switch (kind) {
    case Section::kInfo: return kMaxInfoSectionBytes;
    case Section::kTables: return kMaxTablesSectionBytes;
    case Section::kDirectory: return kMaxDirectorySectionBytes;
    case Section::kNames: return kMaxNamesSectionBytes;
    case Section::kLayout: return kMaxLayoutSectionBytes;
    case Section::kSideFiles: return kMaxSideFilesSectionBytes;
    case Section::kBoxes: return kMaxBoxesSectionBytes;
  }
  return 0;
}

}  // namespace

Result<PatchHead> ReadPatchHead(const PatchBytes& bytes) {
  Bytes scratch;
  if (bytes.size() < kPatchHeaderBytes + kPatchFooterBytes) {
    return Fail(Code::kCorrupt, "a patch has at least {} bytes, not {}", kPatchHeaderBytes + kPatchFooterBytes,
                bytes.size());
  }
  SKERRY_ASSIGN(const ByteSpan header_bytes, bytes.Read(0, kPatchHeaderBytes, scratch));
  Bytes covered = ToBytes(header_bytes);
  ByteReader header(covered);
  if (AsText(header.Raw(8)) != kPatchMagic) return Fail(Code::kCorrupt, "not a Skerry patch (no magic at its start)");
  if (const auto version = header.Int<uint32_t>(); version != kPatchVersion) {
    return Fail(Code::kUnsupported, "patch format version {}, but this program reads version {}", version,
                kPatchVersion);
  }
  if (header.Int<uint32_t>() != 0) return Fail(Code::kCorrupt, "reserved bytes of the header are not zero");
  const auto features = header.Int<uint64_t>();

  SKERRY_ASSIGN(const ByteSpan footer_bytes, bytes.Read(bytes.size() - kPatchFooterBytes, kPatchFooterBytes, scratch));
  const Bytes footer_copy = ToBytes(footer_bytes);
  ByteReader footer(footer_copy);
  const auto blocks_bytes = footer.Int<uint64_t>();
  const auto section_count = footer.Int<uint32_t>();
  const auto checksum = footer.Int<uint64_t>();
  if (AsText(footer.Raw(8)) != kPatchEndMagic) return Fail(Code::kCorrupt, "no end mark: truncated, or bytes follow");
  const uint64_t table_bytes = uint64_t{section_count} * kSectionEntryBytes;
  const uint64_t middle = bytes.size() - kPatchHeaderBytes - kPatchFooterBytes;
  if (section_count > kMaxSections || table_bytes > middle || blocks_bytes > middle - table_bytes) {
    return Fail(Code::kCorrupt, "{} bytes of blocks and {} sections do not fit a file of {} bytes", blocks_bytes,
                section_count, bytes.size());
  }
  SKERRY_ASSIGN(const ByteSpan table_span,
                bytes.Read(bytes.size() - kPatchFooterBytes - table_bytes, table_bytes, scratch));
  const Bytes table = ToBytes(table_span);
  covered.insert(covered.end(), table.begin(), table.end());
  covered.insert(covered.end(), footer_copy.begin(), footer_copy.begin() + 12);
  if (Xxh3(covered) != checksum) return Fail(Code::kCorrupt, "the header or the section table is damaged");
  // After the checksum: a damaged header must not look like a newer format.
  if ((features & ~kKnownFeatures) != 0) {
    return Fail(Code::kUnsupported, "patch needs feature bits {:#x} that this program does not know (it knows {:#x})",
                features & ~kKnownFeatures, kKnownFeatures);
  }

  PatchHead head;
  head.info.structural = (features & kFeatureStructural) != 0;
  uint64_t offset = kPatchHeaderBytes + blocks_bytes;
  const uint64_t end = bytes.size() - kPatchFooterBytes - table_bytes;
  uint8_t previous = 0;
  bool has_directory = false;
  ByteReader entries(table);
  for (uint32_t i = 0; i < section_count; ++i) {
    const auto code = entries.Int<uint8_t>();
    const auto size = entries.Int<uint64_t>();
    const auto sum = entries.Int<uint64_t>();
    if (code <= previous || code > static_cast<uint8_t>(Section::kBoxes)) {
      return Fail(Code::kCorrupt, "section {} is unknown, repeated or out of order", code);
    }
    previous = code;
    const auto kind = static_cast<Section>(code);
    if (size > end - offset || size > SectionLimit(kind)) {
      return Fail(Code::kCorrupt, "section {} has {} bytes, more than the file or the limit holds", code, size);
    }
    Bytes section_scratch;
    SKERRY_ASSIGN(const ByteSpan section, bytes.Read(offset, size, section_scratch));
    if (Xxh3(section) != sum) return Fail(Code::kCorrupt, "section {} is damaged", code);
    offset += size;
    if (i == 0 && kind != Section::kInfo) return Fail(Code::kCorrupt, "the info section is missing");
    switch (kind) {
      case Section::kInfo: SKERRY_TRY(ParseInfo(section, head.info)); break;
      case Section::kTables: SKERRY_TRY(ParseTables(section, head)); break;
      case Section::kDirectory:
        has_directory = true;
        SKERRY_TRY(ParseDirectory(section, head.info, blocks_bytes, head.blocks));
        break;
      case Section::kNames: SKERRY_TRY(ParseNames(section, head.info, head.names)); break;
      case Section::kLayout: {
        SKERRY_ASSIGN(head.layout, ReadCompressed(section, kMaxLayoutSectionBytes, "layout section"));
        break;
      }
      case Section::kSideFiles: SKERRY_TRY(ParseSideFiles(section, head.side_files)); break;
      case Section::kBoxes: SKERRY_TRY(ParseBoxes(section, head.boxes)); break;
    }
  }
  if (section_count == 0) return Fail(Code::kCorrupt, "the info section is missing");
  if (offset != end) return Fail(Code::kCorrupt, "{} bytes between the sections and their table", end - offset);
  if (!has_directory && (head.info.blocks != 0 || head.info.changed != 0 || blocks_bytes != 0)) {
    return Fail(Code::kCorrupt, "{} blocks are announced, but there is no directory", head.info.blocks);
  }
  if (head.boxes.empty() == ((features & kFeatureBoxes) != 0)) {
    return Fail(Code::kCorrupt, "{} boxes, against feature bits {:#x}", head.boxes.size(), features);
  }
  if (head.magnitudes.count(DType::kU8) != ((features & kFeatureCodes) != 0 ? 1 : 0)) {
    return Fail(Code::kCorrupt, "{} magnitude models for U8, against feature bits {:#x}",
                head.magnitudes.count(DType::kU8), features);
  }
  return head;
}

}  // namespace skerry
