#include "skerry/apply/check_side_files.h"

#include "skerry/tensors/checkpoint.h"

namespace skerry {

Status CheckSideFiles(const Manifest& manifest, const Path& directory) {
  for (const SideFile& file : manifest.side_files) {
    const auto content = ReadFile(directory / file.path, kMaxSideFileBytes);
    // A file that could not be read just now says nothing about what it holds.
    const bool unread = !content && content.error().code != Code::kNotFound && content.error().code != Code::kCorrupt;
    if (unread) return tl::unexpected<Error>(content.error());
    if (!content || Sha256::Of(*content) != file.sha256) {
      return Fail(Code::kCorrupt, "{}: {}, but version {} of run {} has SHA-256 {}", (directory / file.path).string(),
                  content ? "SHA-256 is " + Sha256::Of(*content).Short() : content.error().message, manifest.version,
                  manifest.run, file.sha256.Short());
    }
  }
  return {};
}

}  // namespace skerry
