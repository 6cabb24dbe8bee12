// The form that journal and undo log share: a file of parts, most of which are changes to units of a tensor.
//
//   magic (8 bytes), then parts: kind (1 byte), size of the body (8), XXH3-64 of the body (8), body
//   record: tensor (4), first unit (8), units (8), bytes of a unit (1), whether all units change (1), count of the
//           positions (4), positions (4 each), values
// Integers are little-endian.
#ifndef SKERRY_APPLY_CHANGE_FILE_H_
#define SKERRY_APPLY_CHANGE_FILE_H_

#include <string_view>
#include <vector>

#include "skerry/base/file.h"
#include "skerry/base/mapped_file.h"
#include "skerry/patch/block.h"
#include "skerry/patch/patch_file.h"

namespace skerry {

// Changes to one run of units of one tensor.
struct JournalRecord {
  uint32_t tensor = 0;  // ordinal in the checkpoint's layout
  uint64_t first_unit = 0;
  uint64_t units = 0;
  BlockChanges changes;
};

enum class ChangePart : uint8_t { kRecord = 1, kSideFiles = 2, kState = 3, kHead = 4 };

class ChangeFileWriter {
 public:
  // Replaces what is there. `magic`: 8 characters.
  static Result<ChangeFileWriter> Begin(const Path& path, std::string_view magic);

  Status Add(ChangePart kind, ByteSpan body);
  Status Add(const JournalRecord& record);
  Status Add(const std::vector<SideFileChange>& side_files);
  // Everything so far, durable.
  Status Finish();
  uint64_t bytes() const { return bytes_ + buffer_.size(); }

 private:
  Status Flush();

  File file_;
  Bytes buffer_;
  uint64_t bytes_ = 0;
};

// Reads front to back. Untrusted, as a damaged disk is: sizes are checked before they are believed.
class ChangeFileReader {
 public:
  // kCorrupt when it does not begin with `magic`.
  static Result<ChangeFileReader> Open(const Path& path, std::string_view magic);

  struct Part {
    ChangePart kind = ChangePart::kRecord;
    uint64_t offset = 0;  // of the body in the file
    uint64_t size = 0;
    uint64_t checksum = 0;
  };
  bool AtEnd() const { return offset_ == file_.size(); }
  Result<Part> Next();
  // kCorrupt when the checksum is wrong. The span lives as long as `scratch` and this reader.
  Result<ByteSpan> Body(const Part& part, Bytes& scratch) const;
  // Any bytes, unchecked.
  const FileReader& file() const { return file_; }
  // kCorrupt with the file's name.
  tl::unexpected<Error> Damaged(std::string_view what) const;

 private:
  FileReader file_;
  uint64_t offset_ = 0;
};

// A record without its positions and values.
struct RecordHead {
  uint32_t tensor = 0;
  uint64_t first_unit = 0, units = 0;
  uint8_t unit = 1;  // bytes
  bool all = false;
  uint32_t positions = 0;

  uint64_t changed() const { return all ? units : positions; }
};
inline constexpr size_t kRecordHeadBytes = 4 + 8 + 8 + 1 + 1 + 4;

// kCorrupt when `body` is not exactly such a record.
Result<RecordHead> ParseRecordHead(ByteSpan body);
Status ParseRecord(ByteSpan body, JournalRecord& record);
Status ParseSideFiles(ByteSpan body, std::vector<SideFileChange>& files);

}  // namespace skerry

#endif  // SKERRY_APPLY_CHANGE_FILE_H_
