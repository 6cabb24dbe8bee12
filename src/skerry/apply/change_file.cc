#include "skerry/apply/change_file.h"

#include "skerry/base/hash.h"

namespace skerry {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kPartHeaderBytes = 1 + 8 + 8;  // kind, size, XXH3
constexpr size_t kBufferBytes = 1 << 20;
constexpr uint64_t kMaxPartBytes = 1ull << 31;

}  // namespace

Result<ChangeFileWriter> ChangeFileWriter::Begin(const Path& path, std::string_view magic) {
  ChangeFileWriter writer;
  SKERRY_ASSIGN(writer.file_, File::Create(path));
  writer.buffer_ = ToBytes(AsBytes(magic));
  return writer;
}

Status ChangeFileWriter::Flush() {
  SKERRY_TRY(file_.Append(buffer_));
  bytes_ += buffer_.size();
  buffer_.clear();
  return {};
}

Status ChangeFileWriter::Add(ChangePart kind, ByteSpan body) {
  ByteWriter writer(buffer_);
  writer.Int<uint8_t>(static_cast<uint8_t>(kind));
  writer.Int<uint64_t>(body.size());
  writer.Int<uint64_t>(Xxh3(body));
  writer.Raw(body);
  return buffer_.size() >= kBufferBytes ? Flush() : Status();
}

Status ChangeFileWriter::Add(const JournalRecord& record) {
  Bytes body;
  ByteWriter writer(body);
  writer.Int<uint32_t>(record.tensor);
  writer.Int<uint64_t>(record.first_unit);
  writer.Int<uint64_t>(record.units);
  writer.Int<uint8_t>(static_cast<uint8_t>(record.changes.unit));
  writer.Int<uint8_t>(record.changes.all ? 1 : 0);
  writer.Int<uint32_t>(static_cast<uint32_t>(record.changes.positions.size()));
  writer.Raw(std::as_bytes(std::span(record.changes.positions)));
  writer.Raw(record.changes.values);
  return Add(ChangePart::kRecord, body);
}

Status ChangeFileWriter::Add(const std::vector<SideFileChange>& side_files) {
  Bytes body;
  ByteWriter writer(body);
  writer.Varint(side_files.size());
  for (const SideFileChange& file : side_files) {
    writer.Text(file.path);
    writer.Int<uint8_t>(file.content ? 1 : 0);
    writer.Varint(file.content ? file.content->size() : 0);
    if (file.content) writer.Raw(*file.content);
  }
  return Add(ChangePart::kSideFiles, body);
}

Status ChangeFileWriter::Finish() {
  SKERRY_TRY(Flush());
  return file_.Sync();
}

Result<ChangeFileReader> ChangeFileReader::Open(const Path& path, std::string_view magic) {
  ChangeFileReader reader;
  SKERRY_ASSIGN(reader.file_, FileReader::Open(path));
  if (reader.file_.size() < kMagicBytes) return reader.Damaged("shorter than its magic");
  Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan start, reader.file_.Read(0, kMagicBytes, scratch));
  if (AsText(start) != magic) return reader.Damaged("does not begin as it should");
  reader.offset_ = kMagicBytes;
  return reader;
}

tl::unexpected<Error> ChangeFileReader::Damaged(std::string_view what) const {
  return Fail(Code::kCorrupt, "{}: {}", file_.path().string(), what);
}

Result<ChangeFileReader::Part> ChangeFileReader::Next() {
  if (file_.size() - offset_ < kPartHeaderBytes) return Damaged("ends before its last part");
  Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan header, file_.Read(offset_, kPartHeaderBytes, scratch));
  ByteReader reader(header);
  Part part;
  const auto kind = reader.Int<uint8_t>();
  part.kind = static_cast<ChangePart>(kind);
  part.size = reader.Int<uint64_t>();
  part.checksum = reader.Int<uint64_t>();
  part.offset = offset_ + kPartHeaderBytes;
  if (part.size > file_.size() - part.offset || part.size > kMaxPartBytes) {
    return Damaged("a part reaches beyond its end");
  }
  if (kind < static_cast<uint8_t>(ChangePart::kRecord) || kind > static_cast<uint8_t>(ChangePart::kHead)) {
    return Damaged("a part of unknown kind");
  }
  offset_ = part.offset + part.size;
  return part;
}

Result<ByteSpan> ChangeFileReader::Body(const Part& part, Bytes& scratch) const {
  SKERRY_ASSIGN(const ByteSpan body, file_.Read(part.offset, part.size, scratch));
  if (Xxh3(body) != part.checksum) return Damaged("a part's checksum is wrong");
  return body;
}

Result<RecordHead> ParseRecordHead(ByteSpan body) {
  ByteReader reader(body);
  RecordHead head;
  head.tensor = reader.Int<uint32_t>();
  head.first_unit = reader.Int<uint64_t>();
  head.units = reader.Int<uint64_t>();
  head.unit = reader.Int<uint8_t>();
  head.all = reader.Int<uint8_t>() != 0;
  head.positions = reader.Int<uint32_t>();
  const uint64_t positions_bytes = uint64_t{head.positions} * sizeof(uint32_t);
  const bool good_unit = head.unit == 1 || head.unit == 2 || head.unit == 4 || head.unit == 8;
  if (!reader.ok() || !good_unit || reader.remaining() < positions_bytes || (head.all && head.positions != 0) ||
      (reader.remaining() - positions_bytes) / head.unit != head.changed() ||
      (reader.remaining() - positions_bytes) % head.unit != 0) {
    return Fail(Code::kCorrupt, "malformed record of changes");
  }
  return head;
}

Status ParseRecord(ByteSpan body, JournalRecord& record) {
  SKERRY_ASSIGN(const RecordHead head, ParseRecordHead(body));
  record.tensor = head.tensor;
  record.first_unit = head.first_unit;
  record.units = head.units;
  record.changes.unit = head.unit;
  record.changes.all = head.all;
  const ByteSpan positions = body.subspan(kRecordHeadBytes, uint64_t{head.positions} * sizeof(uint32_t));
  const ByteSpan values = body.subspan(kRecordHeadBytes + positions.size());
  record.changes.positions.resize(head.positions);
  if (head.positions > 0) std::memcpy(record.changes.positions.data(), positions.data(), positions.size());
  record.changes.values.assign(values.begin(), values.end());
  for (const uint32_t position : record.changes.positions) {
    if (position >= record.units) {
      return Fail(Code::kCorrupt, "record of changes: position {} of {}", position, record.units);
    }
  }
  return {};
}

Status ParseSideFiles(ByteSpan body, std::vector<SideFileChange>& files) {
  ByteReader reader(body);
  const uint64_t count = reader.Varint();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    SideFileChange file{.path = std::string(reader.Text(1024)), .content = std::nullopt};
    const bool present = reader.Int<uint8_t>() == 1;
    const ByteSpan content = reader.Raw(reader.Varint());
    if (present) file.content = ToBytes(content);
    files.push_back(std::move(file));
  }
  return reader.AtEnd() ? Status() : Fail(Code::kCorrupt, "malformed side files");
}

}  // namespace skerry
