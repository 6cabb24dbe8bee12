// Names for what belongs to a checkpoint directory and must not lie in it: locks, and directories that take its place.
#ifndef SKERRY_APPLY_BESIDE_H_
#define SKERRY_APPLY_BESIDE_H_

#include <string_view>

#include "skerry/base/file.h"

namespace skerry {

// The directory as an absolute path without a slash at its end, so that its parent is the one that holds it.
inline Path NamedDirectory(const Path& directory) {
  Path absolute = std::filesystem::absolute(directory).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

// ".NAME.WHAT" in the directory that holds `directory`.
inline Path Beside(const Path& directory, std::string_view what) {
  const Path named = NamedDirectory(directory);
  return named.parent_path() / fmt::format(".{}.{}", named.filename().string(), what);
}

}  // namespace skerry

#endif  // SKERRY_APPLY_BESIDE_H_
