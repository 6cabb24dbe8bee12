// How a finished temporary file gets its final name without ever replacing another, and which of these ways a file
// system really has. Some mounts (object stores, odd network file systems) accept the calls and do something else, or
// refuse them: that has to be known before the first publish, not after a lost version.
#ifndef SKERRY_BOARD_FILE_PUBLICATION_H_
#define SKERRY_BOARD_FILE_PUBLICATION_H_

#include "skerry/base/file.h"
#include "skerry/base/result.h"

namespace skerry {

enum class NoReplace {
  kLink,    // link(2), then the temporary name goes away
  kRename,  // renameat2(2) with RENAME_NOREPLACE, where there are no hard links
};

// A new name in `directory` that no key can have.
Path TemporaryPath(const Path& directory);

// Gives `temporary` the name `path`: kConflict when something has it. Either way the temporary name is gone after
// success; after a failure it may still be there.
Status PublishFile(const Path& temporary, const Path& path, NoReplace how);

// Gives `existing` the second name `path`. False where the two can't share bytes (another file system, no hard links,
// not ours); kConflict when something has the name.
Result<bool> ShareFile(const Path& existing, const Path& path);

// Tries rename, link (else rename without replacing) and flock in `directory`, and leaves nothing behind. kUnsupported
// names what does not work and advises an S3 board. A full disk, a read-only mount and the like are not mistaken for
// that: they are returned as they are.
Result<NoReplace> ProbeFileSystem(const Path& directory);

}  // namespace skerry

#endif  // SKERRY_BOARD_FILE_PUBLICATION_H_
