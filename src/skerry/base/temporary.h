// Names for what is not finished: files and folders that get their real name by a rename.
#ifndef SKERRY_BASE_TEMPORARY_H_
#define SKERRY_BASE_TEMPORARY_H_

#include "skerry/base/file.h"

namespace skerry {

// ".NAME.tmp-PID" beside `path`: hidden, so that it never counts as part of a checkpoint.
Path TemporaryBeside(const Path& path);

// Removes such files and folders in `directory` whose process is gone. `of` limits that to one target's; empty means
// any. For folders that only processes of this host write to, or under their lock. Never fails: what can't be removed
// stays.
void SweepTemporaries(const Path& directory, const Path& of = {});

// The same in `directory` and all folders below it.
void SweepTemporariesBelow(const Path& directory);

}  // namespace skerry

#endif  // SKERRY_BASE_TEMPORARY_H_
