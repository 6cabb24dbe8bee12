#include "skerry/apply/journal.h"

#include <unistd.h>

namespace skerry {
namespace {

constexpr std::string_view kName = "journal";
constexpr std::string_view kUnfinishedName = "journal.unfinished";
constexpr std::string_view kMagic = "SKERRYJ1";

}  // namespace

Result<JournalWriter> JournalWriter::Begin(const Path& state_directory) {
  JournalWriter writer;
  writer.directory_ = state_directory;
  SKERRY_ASSIGN(writer.file_, ChangeFileWriter::Begin(state_directory / kUnfinishedName, kMagic));
  return writer;
}

Status JournalWriter::Add(JournalRecord record) {
  SKERRY_TRY(file_.Add(record));
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
  SKERRY_TRY(file_.Add(side_files));
  SKERRY_TRY(file_.Add(ChangePart::kState, new_state.Serialize()));
  SKERRY_TRY(file_.Finish());
  SKERRY_TRY(Rename(directory_ / kUnfinishedName, directory_ / kName));
  return SyncDirectory(directory_);
}

void JournalWriter::Abandon() { ::unlink((directory_ / kUnfinishedName).c_str()); }

bool JournalExists(const Path& state_directory) {
  std::error_code error;
  return std::filesystem::exists(state_directory / kName, error);
}

Result<JournalEnd> ReadJournal(const Path& state_directory, const std::function<Status(const JournalRecord&)>& write) {
  const auto read = [&]() -> Result<JournalEnd> {
    SKERRY_ASSIGN(ChangeFileReader reader, ChangeFileReader::Open(state_directory / kName, kMagic));
    JournalEnd end;
    JournalRecord record;
    Bytes scratch;
    while (true) {
      SKERRY_ASSIGN(const ChangeFileReader::Part part, reader.Next());
      if (part.kind == ChangePart::kRecord && !write) continue;
      SKERRY_ASSIGN(const ByteSpan body, reader.Body(part, scratch));
      if (part.kind == ChangePart::kRecord) {
        SKERRY_TRY(ParseRecord(body, record));
        SKERRY_TRY(write(record));
      } else if (part.kind == ChangePart::kSideFiles) {
        SKERRY_TRY(ParseSideFiles(body, end.side_files));
      } else if (part.kind == ChangePart::kState) {
        SKERRY_ASSIGN(end.new_state, CheckpointState::Parse(body));
        if (!reader.AtEnd()) return reader.Damaged("bytes after its last part");
        return end;
      } else {
        return reader.Damaged("a part of unknown kind");
      }
    }
  };
  auto end = read();
  if (end || end.error().code != Code::kCorrupt) return end;
  return Fail(Code::kCorrupt, "{}; rebuild the checkpoint", end.error().message);
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
