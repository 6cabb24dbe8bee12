#include "skerry/apply/undo_entry.h"

#include <unistd.h>

#include <charconv>

#include <nlohmann/json.hpp>

namespace skerry {
namespace {

constexpr std::string_view kMagic = "SKERRYU1";
constexpr std::string_view kSuffix = ".undo";
constexpr std::string_view kUnfinishedSuffix = ".unfinished";
constexpr uint64_t kMaxHeadBytes = 4096;

nlohmann::json ToJson(const VersionMark& mark) {
  nlohmann::json json = {{"layout", mark.layout.Hex()}, {"model", mark.model.Hex()}, {"run", mark.label.run}};
  if (mark.label.version) json["version"] = mark.label.version->number();
  return json;
}

Result<VersionMark> ParseMark(const nlohmann::json& head, const char* key) {
  const auto found = head.find(key);
  if (found == head.end() || !found->is_object()) return Fail(Code::kCorrupt, "a head without '{}'", key);
  const auto text_of = [&](const char* name) {
    const auto at = found->find(name);
    return at != found->end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  VersionMark mark;
  SKERRY_ASSIGN(mark.layout, Digest::FromHex(text_of("layout")));
  SKERRY_ASSIGN(mark.model, Digest::FromHex(text_of("model")));
  mark.label.run = text_of("run");
  if (const auto version = found->find("version"); version != found->end()) {
    if (!version->is_number_unsigned() || version->get<uint64_t>() > Version::kMax) {
      return Fail(Code::kCorrupt, "version {}", version->dump());
    }
    mark.label.version = Version(version->get<uint64_t>());
  }
  return mark;
}

Status ParseHead(ByteSpan body, UndoStep& step) {
  const auto text = AsText(body);
  const auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Fail(Code::kCorrupt, "its head is no JSON object");
  SKERRY_ASSIGN(step.from, ParseMark(json, "from"));
  SKERRY_ASSIGN(step.to, ParseMark(json, "to"));
  return {};
}

// The number in `000000012.undo`.
Result<uint64_t> NumberOf(const Path& file) {
  const std::string name = file.filename().string();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || std::string_view(end) != kSuffix) {
    return Fail(Code::kCorrupt, "{} is not named as an undo file is", file.string());
  }
  return number;
}

// Removes unfinished files and gives the number behind the last.
Result<uint64_t> NextNumber(const Path& directory) {
  uint64_t next = 1;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == kUnfinishedSuffix) ::unlink(entry.path().c_str());
    if (const auto number = NumberOf(entry.path())) next = std::max(next, *number + 1);
  }
  if (error) return ErrnoFailure(error.value(), "list", directory);
  return next;
}

Status CheckPositions(const ChangeFileReader& reader, const RecordHead& head, ByteSpan body) {
  const std::byte* positions = body.data() + kRecordHeadBytes;
  uint64_t lowest = 0;  // that may come next
  for (uint32_t i = 0; i < head.positions; ++i) {
    const auto position = LoadLe<uint32_t>(positions + size_t{i} * sizeof(uint32_t));
    if (position < lowest || position >= head.units) return reader.Damaged("positions that do not rise");
    lowest = uint64_t{position} + 1;
  }
  return {};
}

}  // namespace

Result<UndoWriter> UndoWriter::Begin(const Path& state_directory, const VersionMark& from, const VersionMark& to) {
  const Path directory = UndoDirectory(state_directory);
  SKERRY_TRY(MakeDirectories(directory));
  SKERRY_ASSIGN(const uint64_t number, NextNumber(directory));
  UndoWriter writer;
  writer.unfinished_ = directory / fmt::format("{:09}{}", number, kUnfinishedSuffix);
  writer.final_ = directory / fmt::format("{:09}{}", number, kSuffix);
  SKERRY_ASSIGN(writer.file_, ChangeFileWriter::Begin(writer.unfinished_, kMagic));
  const std::string head = nlohmann::json{{"from", ToJson(from)}, {"to", ToJson(to)}}.dump();
  SKERRY_TRY(writer.file_.Add(ChangePart::kHead, AsBytes(head)));
  return writer;
}

Status UndoWriter::Commit(const std::vector<SideFileChange>& side_files, const CheckpointState& from) {
  SKERRY_TRY(file_.Add(side_files));
  SKERRY_TRY(file_.Add(ChangePart::kState, from.Serialize()));
  SKERRY_TRY(file_.Finish());
  SKERRY_TRY(Rename(unfinished_, final_));
  return SyncDirectory(final_.parent_path());
}

void UndoWriter::Abandon() {
  ::unlink(unfinished_.c_str());
  ::unlink(final_.c_str());
}

Result<UndoStep> ReadUndoStep(const Path& file) {
  UndoStep step{.file = file};
  SKERRY_ASSIGN(step.number, NumberOf(file));
  SKERRY_ASSIGN(ChangeFileReader reader, ChangeFileReader::Open(file, kMagic));
  SKERRY_ASSIGN(const ChangeFileReader::Part part, reader.Next());
  if (part.kind != ChangePart::kHead || part.size > kMaxHeadBytes) return reader.Damaged("does not begin with a head");
  Bytes scratch;
  SKERRY_ASSIGN(const ByteSpan body, reader.Body(part, scratch));
  if (Status parsed = ParseHead(body, step); !parsed) return Annotate(std::move(parsed).error(), file.string());
  step.bytes = reader.file().size();
  return step;
}

Result<UndoEntry> ReadUndoEntry(const UndoStep& step) {
  UndoEntry entry;
  SKERRY_ASSIGN(entry.reader, ChangeFileReader::Open(step.file, kMagic));
  ChangeFileReader& reader = entry.reader;
  Bytes scratch;
  bool complete = false;
  while (!complete) {
    SKERRY_ASSIGN(const ChangeFileReader::Part part, reader.Next());
    SKERRY_ASSIGN(const ByteSpan body, reader.Body(part, scratch));
    switch (part.kind) {
      case ChangePart::kHead: {
        UndoStep read;
        SKERRY_TRY(ParseHead(body, read));
        if (read.from != step.from || read.to != step.to) return reader.Damaged("another step than a moment ago");
        break;
      }
      case ChangePart::kRecord: {
        SKERRY_ASSIGN(const RecordHead head, ParseRecordHead(body));
        SKERRY_TRY(CheckPositions(reader, head, body));
        entry.records.push_back({.head = head, .offset = part.offset + kRecordHeadBytes});
        break;
      }
      case ChangePart::kSideFiles: SKERRY_TRY(ParseSideFiles(body, entry.side_files)); break;
      case ChangePart::kState: {
        SKERRY_ASSIGN(entry.from, CheckpointState::Parse(body));
        complete = true;
        break;
      }
    }
  }
  if (!reader.AtEnd()) return reader.Damaged("bytes after its last part");
  if (VersionMark::Of(entry.from) != step.from) return reader.Damaged("its state is not the one its head names");
  SKERRY_TRY(reader.file().Check());
  return entry;
}

}  // namespace skerry
