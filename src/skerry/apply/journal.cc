#include "skerry/apply/journal.h"

#include <unistd.h>

namespace skerry {
namespace {

constexpr std::string_view kName = "journal";
constexpr std::string_view kUnfinishedName = "journal.unfinished";
constexpr std::string_view kMagic = "SKERRYJ1";
constexpr size_t kPartHeaderBytes = 1 + 8 + 8;  // kind, size, XXH3
constexpr size_t kBufferBytes = 1 << 20;
constexpr uint64_t kMaxPartBytes = 1ull << 31;

enum Part : uint8_t { kRecord = 1, kSideFiles = 2, kState = 3 };  // kState is the last one

Bytes EncodeRecord(const JournalRecord& record) {
  Bytes out;
  ByteWriter writer(out);
  writer.Int<uint32_t>(record.tensor);
  writer.Int<uint64_t>(record.first_unit);
  writer.Int<uint64_t>(record.units);
  writer.Int<uint8_t>(static_cast<uint8_t>(record.changes.unit));
  writer.Int<uint8_t>(record.changes.all ? 1 : 0);
  writer.Int<uint32_t>(static_cast<uint32_t>(record.changes.positions.size()));
  writer.Raw(std::as_bytes(std::span(record.changes.positions)));
  writer.Raw(record.changes.values);
  return out;
}

Status DecodeRecord(ByteSpan body, JournalRecord& record) {
  ByteReader reader(body);
  record.tensor = reader.Int<uint32_t>();
  record.first_unit = reader.Int<uint64_t>();
  record.units = reader.Int<uint64_t>();
  record.changes.unit = reader.Int<uint8_t>();
  record.changes.all = reader.Int<uint8_t>() != 0;
  const auto count = reader.Int<uint32_t>();
  const ByteSpan positions = reader.Raw(uint64_t{count} * sizeof(uint32_t));
  const ByteSpan values = reader.Raw(reader.remaining());
  const uint64_t expected = record.changes.all ? record.units : count;
  const int unit = record.changes.unit;
  if (!reader.ok() || (unit != 1 && unit != 2 && unit != 4 && unit != 8) ||
      values.size() != expected * static_cast<uint64_t>(unit)) {
    return Fail(Code::kCorrupt, "malformed journal record");
  }
  record.changes.positions.resize(count);
  if (count > 0) std::memcpy(record.changes.positions.data(), positions.data(), positions.size());
  record.changes.values.assign(values.begin(), values.end());
  for (const uint32_t position : record.changes.positions) {
    if (position >= record.units)
      return Fail(Code::kCorrupt, "journal record: position {} of {}", position, record.units);
  }
  return {};
}

Bytes EncodeSideFiles(const std::vector<SideFileChange>& files) {
  Bytes out;
  ByteWriter writer(out);
  writer.Varint(files.size());
  for (const SideFileChange& file : files) {
    writer.Text(file.path);
    writer.Int<uint8_t>(file.content ? 1 : 0);
    writer.Varint(file.content ? file.content->size() : 0);
    if (file.content) writer.Raw(*file.content);
  }
  return out;
}

Status DecodeSideFiles(ByteSpan body, std::vector<SideFileChange>& files) {
  ByteReader reader(body);
  const uint64_t count = reader.Varint();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    SideFileChange file{.path = std::string(reader.Text(1024)), .content = std::nullopt};
    const bool present = reader.Int<uint8_t>() == 1;
    const ByteSpan content = reader.Raw(reader.Varint());
    if (present) file.content = ToBytes(content);
    files.push_back(std::move(file));
  }
  return reader.AtEnd() ? Status() : Fail(Code::kCorrupt, "malformed side files of a journal");
}

}  // namespace

Result<JournalWriter> JournalWriter::Begin(const Path& state_directory) {
  JournalWriter writer;
  writer.directory_ = state_directory;
  SKERRY_ASSIGN(writer.file_, File::Create(state_directory / kUnfinishedName));
  writer.buffer_ = ToBytes(AsBytes(kMagic));
  return writer;
}

Status JournalWriter::Flush() {
  SKERRY_TRY(file_.Append(buffer_));
  bytes_ += buffer_.size();
  buffer_.clear();
  return {};
}

Status JournalWriter::AddPart(uint8_t kind, ByteSpan body) {
  ByteWriter writer(buffer_);
  writer.Int<uint8_t>(kind);
  writer.Int<uint64_t>(body.size());
  writer.Int<uint64_t>(Xxh3(body));
  writer.Raw(body);
  return buffer_.size() >= kBufferBytes ? Flush() : Status();
}

Status JournalWriter::Add(JournalRecord record) {
  SKERRY_TRY(AddPart(kRecord, EncodeRecord(record)));
  if (!keeping_) return {};
  kept_bytes_ += record.changes.positions.size() * sizeof(uint32_t) + record.changes.values.size();
  if (kept_bytes_ <= kKeptJournalBytes) {
    kept_.push_back(std::move(record));
  } else {
    keeping_ = false;
    kept_ = {};
  }
  return {};
}

Status JournalWriter::Commit(const std::vector<SideFileChange>& side_files, const CheckpointState& new_state) {
  SKERRY_TRY(AddPart(kSideFiles, EncodeSideFiles(side_files)));
  SKERRY_TRY(AddPart(kState, new_state.Serialize()));
  SKERRY_TRY(Flush());
  SKERRY_TRY(file_.Sync());
  SKERRY_TRY(Rename(directory_ / kUnfinishedName, directory_ / kName));
  return SyncDirectory(directory_);
}

void JournalWriter::Abandon() { ::unlink((directory_ / kUnfinishedName).c_str()); }

bool JournalExists(const Path& state_directory) {
  std::error_code error;
  return std::filesystem::exists(state_directory / kName, error);
}

Result<JournalEnd> ReadJournal(const Path& state_directory, const std::function<Status(const JournalRecord&)>& write) {
  const Path path = state_directory / kName;
  const auto damaged = [&](std::string_view what) {
    return Fail(Code::kCorrupt, "{}: {}; rebuild the checkpoint", path.string(), what);
  };
  SKERRY_ASSIGN(const File file, File::OpenForReading(path));
  SKERRY_ASSIGN(const uint64_t size, file.Size());
  Bytes start(kMagic.size());
  if (size < start.size()) return damaged("shorter than its magic");
  SKERRY_TRY(file.ReadAt(start, 0));
  if (AsText(start) != kMagic) return damaged("no journal");

  JournalEnd end;
  JournalRecord record;
  Bytes header(kPartHeaderBytes), body;
  uint64_t offset = kMagic.size();
  while (true) {
    if (size - offset < kPartHeaderBytes) return damaged("ends before its last part");
    SKERRY_TRY(file.ReadAt(header, offset));
    offset += kPartHeaderBytes;
    ByteReader reader(header);
    const auto kind = reader.Int<uint8_t>();
    const auto length = reader.Int<uint64_t>();
    const auto checksum = reader.Int<uint64_t>();
    if (length > size - offset || length > kMaxPartBytes) return damaged("a part reaches beyond its end");
    if (kind == kRecord && !write) {
      offset += length;
      continue;
    }
    body.resize(length);
    SKERRY_TRY(file.ReadAt(body, offset));
    offset += length;
    if (Xxh3(body) != checksum) return damaged("a part's checksum is wrong");
    if (kind == kRecord) {
      SKERRY_TRY(DecodeRecord(body, record));
      SKERRY_TRY(write(record));
    } else if (kind == kSideFiles) {
      SKERRY_TRY(DecodeSideFiles(body, end.side_files));
    } else if (kind == kState) {
      SKERRY_ASSIGN(end.new_state, CheckpointState::Parse(body));
      if (offset != size) return damaged("bytes after its last part");
      return end;
    } else {
      return damaged("a part of unknown kind");
    }
  }
}

Status RemoveJournal(const Path& state_directory) {
  std::error_code error;
  std::filesystem::remove(state_directory / kName, error);
  if (error) return ErrnoFailure(error.value(), "remove", state_directory / kName);
  return SyncDirectory(state_directory);
}

uint64_t JournalBytes(uint64_t changed, int widest_unit, uint64_t blocks, uint64_t tensors) {
  return changed * (sizeof(uint32_t) + static_cast<uint64_t>(widest_unit)) + blocks * 64 + tensors * 40 + 4096;
}

}  // namespace skerry
