// The redo journal of an in-place apply: what shall be written, durable before the first write to the checkpoint.
#ifndef SKERRY_APPLY_JOURNAL_H_
#define SKERRY_APPLY_JOURNAL_H_

#include <functional>
#include <string>
#include <vector>

#include "skerry/apply/change_file.h"
#include "skerry/apply/state.h"
#include "skerry/base/file.h"

namespace skerry {

// A file `journal` in the state directory. It is written under another name, made durable and renamed, so a journal
// that exists is complete: replaying it, any number of times, gives the new version. Each record carries a checksum.
class JournalWriter {
 public:
  // Removes an unfinished journal that a crash left behind.
  static Result<JournalWriter> Begin(const Path& state_directory);

  Status Add(JournalRecord record);
  // The last part: side files and the state after the apply; fsync, rename, fsync of the directory.
  Status Commit(const std::vector<SideFileChange>& side_files, const CheckpointState& new_state);
  void Abandon();

  uint64_t bytes() const { return file_.bytes(); }
  // The records so far, kept in memory as well while they are few enough to spare reading them back; nullptr when not.
  std::vector<JournalRecord>* kept() { return keeping_ ? &kept_ : nullptr; }

 private:
  Path directory_;
  ChangeFileWriter file_;
  bool keeping_ = true;
  uint64_t kept_bytes_ = 0;
  std::vector<JournalRecord> kept_;
};

struct JournalEnd {
  std::vector<SideFileChange> side_files;
  CheckpointState new_state;
};

// Whether a committed journal is there.
bool JournalExists(const Path& state_directory);

// Reads a committed journal front to back: `write` for each record (passed over unread where it is empty), then the
// end. kCorrupt when the disk damaged it.
Result<JournalEnd> ReadJournal(const Path& state_directory, const std::function<Status(const JournalRecord&)>& write);

// After everything that it says is durable elsewhere.
Status RemoveJournal(const Path& state_directory);

// Records of at most this size are kept in memory (see JournalWriter::kept).
inline constexpr uint64_t kKeptJournalBytes = 64 << 20;

// What a journal of so many changes takes on disk, from above.
uint64_t JournalBytes(uint64_t changed, int widest_unit, uint64_t blocks, uint64_t tensors);

}  // namespace skerry

#endif  // SKERRY_APPLY_JOURNAL_H_
