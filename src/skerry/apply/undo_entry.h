// One file of the undo log: how it is written beside a journal, and read.
#ifndef SKERRY_APPLY_UNDO_ENTRY_H_
#define SKERRY_APPLY_UNDO_ENTRY_H_

#include <vector>

#include "skerry/apply/change_file.h"
#include "skerry/apply/undo_log.h"

namespace skerry {

// A change file (change_file.h) of magic "SKERRYU1": a head (the step's two versions), records with the bytes of
// `from`, the side files of `from` where they differ, and the state of `from`.
//
//   1. write `NUMBER.unfinished`      crash: removed by the next writer
//   2. fsync it, rename to `NUMBER.undo`, fsync the folder    crash: a step that perhaps was never made, which is true
//                                                              all the same
class UndoWriter {
 public:
  // Removes what a crash left unfinished.
  static Result<UndoWriter> Begin(const Path& state_directory, const VersionMark& from, const VersionMark& to);

  // `record` with the bytes of `from`.
  Status Add(const JournalRecord& record) { return file_.Add(record); }
  Status Commit(const std::vector<SideFileChange>& side_files, const CheckpointState& from);
  // Of a move that was given up; also after Commit.
  void Abandon();

  uint64_t bytes() const { return file_.bytes(); }

 private:
  Path unfinished_, final_;
  ChangeFileWriter file_;
};

// A record in the file, without its changes.
struct UndoRecord {
  RecordHead head;
  uint64_t offset = 0;  // in the file, of its positions
};

struct UndoEntry {
  ChangeFileReader reader;
  std::vector<UndoRecord> records;
  std::vector<SideFileChange> side_files;
  CheckpointState from;
};

// What a step is, without reading its file further than that. kCorrupt, kNotFound.
Result<UndoStep> ReadUndoStep(const Path& file);
// Reads all of it once: checksums hold, positions rise and are below their record's units.
Result<UndoEntry> ReadUndoEntry(const UndoStep& step);

}  // namespace skerry

#endif  // SKERRY_APPLY_UNDO_ENTRY_H_
