#include "skerry/pull/part_file.h"

#include <algorithm>
#include <charconv>

namespace skerry {
namespace {

// "BEGIN END"; nothing for a line that is torn or makes no sense.
std::optional<ByteRange> ParseRange(std::string_view line, uint64_t size) {
  ByteRange range;
  const char* const last = line.data() + line.size();
  const auto begin = std::from_chars(line.data(), last, range.begin);
  if (begin.ec != std::errc() || begin.ptr == last || *begin.ptr != ' ') return std::nullopt;
  const auto end = std::from_chars(begin.ptr + 1, last, range.end);
  if (end.ec != std::errc() || end.ptr != last || range.begin >= range.end || range.end > size) return std::nullopt;
  return range;
}

}  // namespace

Result<PartFile> PartFile::Open(const Path& path, const ObjectRef& object) {
  SKERRY_ASSIGN(PinnedFile part, PinnedFile::Own(path.string() + ".part"));
  PartFile file(path, std::move(part), object.size,
                fmt::format("skerry-ranges 1 {} {}\n", object.sha256.Hex(), object.size));
  SKERRY_ASSIGN(file.length_, file.part_.file().Size());
  return file;
}

Status PartFile::Begin(bool out_of_order) {
  std::error_code error;
  if (std::filesystem::exists(RecordPath(), error)) {
    record_end_ = ReadRecord();
    out_of_order = true;
  } else if (length_ <= size_) {
    Add({0, length_});
  }
  return out_of_order ? BeginRecord() : Status();
}

uint64_t PartFile::ReadRecord() {
  const auto record = ReadFile(RecordPath(), kMaxRecordBytes);
  if (!record || !AsText(*record).starts_with(header_)) return 0;
  uint64_t read = header_.size();
  std::string_view rest = AsText(*record).substr(read);
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const auto range = ParseRange(rest.substr(0, end), std::min(length_, size_));
    if (range) Add(*range);
    rest.remove_prefix(end + 1);
    read += end + 1;
  }
  return read;
}

// The record says what is there before the file gets its full length.
Status PartFile::BeginRecord() {
  if (record_end_ == 0) {
    std::string text = header_;
    for (const ByteRange& range : there_) text += fmt::format("{} {}\n", range.begin, range.end);
    SKERRY_ASSIGN(record_, File::Create(RecordPath()));
    SKERRY_TRY(record_.WriteAt(AsBytes(text), 0));
    record_end_ = text.size();
  } else if (!record_.is_open()) {
    SKERRY_ASSIGN(record_, File::OpenForWriting(RecordPath()));
    SKERRY_TRY(record_.Truncate(record_end_));  // a torn line
  }
  SKERRY_TRY(part_.file().Truncate(size_));
  length_ = size_;
  return {};
}

void PartFile::Add(ByteRange range) {
  if (range.size() == 0) return;
  const auto before = [](const ByteRange& a, uint64_t begin) { return a.end < begin; };
  auto first = std::lower_bound(there_.begin(), there_.end(), range.begin, before);
  auto last = first;
  for (; last != there_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  there_.insert(there_.erase(first, last), range);
}

std::vector<ByteRange> PartFile::Missing(uint64_t most) const {
  std::vector<ByteRange> missing;
  uint64_t at = 0;
  const auto up_to = [&](uint64_t end) {
    for (; at < end; at = missing.back().end) missing.push_back({at, std::min(end, at + most)});
  };
  for (const ByteRange& range : there_) {
    up_to(range.begin);
    at = range.end;
  }
  up_to(size_);
  return missing;
}

uint64_t PartFile::present() const {
  uint64_t bytes = 0;
  for (const ByteRange& range : there_) bytes += range.size();
  return bytes;
}

uint64_t PartFile::Prefix() const { return there_.empty() || there_[0].begin != 0 ? 0 : there_[0].end; }

Status PartFile::Write(uint64_t offset, ByteSpan bytes) const { return part_.file().WriteAt(bytes, offset); }

Status PartFile::Note(const ByteRange& range) {
  if (record_.is_open()) {
    const std::string line = fmt::format("{} {}\n", range.begin, range.end);
    SKERRY_TRY(record_.WriteAt(AsBytes(line), record_end_));
    record_end_ += line.size();
  }
  Add(range);
  return {};
}

Status PartFile::Read(uint64_t offset, MutableByteSpan out) const { return part_.file().ReadAt(out, offset); }

Status PartFile::Restart() {
  there_.clear();
  record_end_ = 0;
  SKERRY_TRY(part_.file().Truncate(0));
  return record_.is_open() ? BeginRecord() : Status();
}

void PartFile::Abandon() {
  std::error_code error;
  std::filesystem::remove(PartPath(), error);
  std::filesystem::remove(RecordPath(), error);
}

Result<PinnedFile> PartFile::Finish() {
  SKERRY_TRY(part_.file().Truncate(size_));
  SKERRY_TRY(part_.file().Sync());
  // First the record: the file alone, at its full length, counts as complete, which it is.
  if (record_.is_open()) SKERRY_TRY(RemoveTree(RecordPath()));
  SKERRY_TRY(Rename(PartPath(), path_));
  SKERRY_TRY(SyncDirectory(path_.parent_path()));
  return std::move(part_);
}

}  // namespace skerry
