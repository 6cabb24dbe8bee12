// The parts of journals and undo entries, which a damaged disk may have changed: what is accepted is in its bounds.
#include "check.h"
#include "skerry/apply/change_file.h"

namespace {

using skerry::ByteSpan;

void Record(ByteSpan bytes) {
  skerry::JournalRecord record;
  const auto head = skerry::ParseRecordHead(bytes);
  const auto parsed = skerry::ParseRecord(bytes, record);
  if (!parsed) return;
  FUZZ_CHECK(head && head->tensor == record.tensor && head->units == record.units);
  FUZZ_CHECK(record.changes.positions.size() <= bytes.size() && record.changes.values.size() <= bytes.size());
  for (const uint32_t position : record.changes.positions) FUZZ_CHECK(position < record.units);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  Record(bytes);
  std::vector<skerry::SideFileChange> files;
  (void)skerry::ParseSideFiles(bytes, files);
  FUZZ_CHECK(files.size() <= size);
  return 0;
}
