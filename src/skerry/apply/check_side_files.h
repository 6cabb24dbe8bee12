// Whether a directory's side files are those of a version.
#ifndef SKERRY_APPLY_CHECK_SIDE_FILES_H_
#define SKERRY_APPLY_CHECK_SIDE_FILES_H_

#include "skerry/base/file.h"
#include "skerry/board/manifest.h"

namespace skerry {

// kCorrupt, naming the file and both SHA-256, where one that the manifest names is missing or another. Files that it
// does not name are not looked at. A file that can't be read is the error of reading it.
Status CheckSideFiles(const Manifest& manifest, const Path& directory);

}  // namespace skerry

#endif  // SKERRY_APPLY_CHECK_SIDE_FILES_H_
