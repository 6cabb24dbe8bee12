// Part of canonical_checkpoint.h: one move while it is being prepared.
#ifndef SKERRY_APPLY_CANONICAL_MOVE_H_
#define SKERRY_APPLY_CANONICAL_MOVE_H_

#include <optional>

#include "skerry/apply/canonical_checkpoint.h"
#include "skerry/apply/content_lock.h"
#include "skerry/apply/undo_entry.h"

namespace skerry {

struct CanonicalCheckpoint::Move {
  JournalWriter journal;
  std::optional<UndoWriter> undo;
  ContentLock content;
  ApplyReceipt receipt;

  // Both files get the changes and what they replace; one call at a time. `old`: the run's bytes as they are.
  Status Add(JournalRecord record, ByteSpan old);
};

}  // namespace skerry

#endif  // SKERRY_APPLY_CANONICAL_MOVE_H_
