// At which elements a checkpoint differs from another version that an engine still serves.
#ifndef SKERRY_APPLY_CHANGED_POSITIONS_H_
#define SKERRY_APPLY_CHANGED_POSITIONS_H_

#include <optional>

#include "skerry/apply/state.h"
#include "skerry/base/file.h"
#include "skerry/base/result.h"
#include "skerry/tensors/layout.h"

namespace skerry {

// Beyond these a whole load is the better way.
struct ChangedPositionsLimits {
  uint64_t bytes = 256 << 20;  // of the file
  double share = 0.25;         // of the checkpoint's elements
};

struct ChangedPositions {
  uint64_t tensors = 0, elements = 0;
  uint64_t bytes = 0;  // of the file
};

// Writes the file of positions that engine/engine.h describes, from the undo log of the checkpoint whose state is in
// `state_directory` and whose layout is `layout`: every element that differs between the version labelled `from` and
// what is there. `from` may be older or, after a rollback, newer. A step that went there and back leaves positions that
// differ no longer; the file may name them.
//
// An index counts elements as the shape in a safetensors header does. Of a type that packs several elements into a byte
// (F4, F6_E2M3, F6_E3M2) every element of a changed byte is named.
//
// nullopt, and no file: where no unbroken chain leads from one version to the other, where the log was damaged or
// pruned, and beyond `limits`. Where the versions are the same the file has no tensors. Replaces `positions`; the file
// is not synced, since it is of no use to the next process. Nobody may move the checkpoint meanwhile (ContentLock).
// Uses memory for a window of one tensor (at most 16 MiB), not for the changes.
Result<std::optional<ChangedPositions>> CollectChanges(const Path& state_directory, const Layout& layout,
                                                       const VersionLabel& from, const Path& positions,
                                                       const ChangedPositionsLimits& limits = {});

}  // namespace skerry

#endif  // SKERRY_APPLY_CHANGED_POSITIONS_H_
